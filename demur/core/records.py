"""All records that flow between rooms.

They are frozen, JSON-safe and strict (an unknown field is an error). Ids are strings: unchanged native ids, or content
hashes. ``docs/datamodel.md`` shows how the records flow.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from demur.core.turns import ATTRIBUTE, Turn, asked_in, turns_of


class Record(BaseModel):
    """Frozen, strict about unknown fields, and equal by value."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# --- documents, evidence and samples -------------------------------------------------------------


class Modality(StrEnum):
    """Of a piece of evidence."""

    TEXT = "text"
    IMAGE = "image"


class ImageRef(Record):
    """A reference to an image: its bytes are in a file or a store, its identity is their SHA-256."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """Lower-case hex SHA-256 of the encoded bytes as stored (not of the pixels)."""
    uri: str
    """Where the bytes are: a path, or another form of `demur.core.uris.read_image` (``zip:..!member`` ...)."""
    width: int = Field(ge=1)
    height: int = Field(ge=1)
    media_type: str = Field(default="image/png", pattern="^[a-z]+/[a-z0-9][a-z0-9.+-]{0,60}$")
    """File names contain it and the hash, so neither may contain a path."""


class Document(Record):
    """One entry of a knowledge base: a passage, or an image with its caption as title."""

    id: str
    title: str
    text: str | None = None
    image: ImageRef | None = None
    document: str = ""
    """Id of the document that it is a passage of; "" if it is a whole one (`demur.corpora.lineage`)."""
    page: str = ""
    """The article or file that it belongs to: retrieval finds pages, then passages of them."""
    source: str = ""
    licence: str = ""
    attributes: dict[str, str] = {}

    @model_validator(mode="after")
    def _holds_something(self) -> Self:
        if self.text is None and self.image is None:
            raise ValueError("a document needs text or an image; this one has neither")
        return self

    @property
    def modality(self) -> Modality:
        """TEXT if it has text, else IMAGE (the title is then a caption)."""
        return Modality.TEXT if self.text is not None else Modality.IMAGE


class Role(StrEnum):
    """Whether a piece of evidence supports the answer."""

    GOLD = "gold"
    DISTRACTOR = "distractor"


class Evidence(Record):
    """A document in its role for one sample, with its provenance."""

    id: str
    """Id of the document or passage; unique within a sample."""
    document: str = ""
    """Id of the document that it is a passage of, by source or index; "" for a whole one (`demur.corpora.lineage`)."""
    page: str = ""
    """The page of that document; "" if it is its own page."""
    modality: Modality
    title: str
    text: str | None = None
    image: ImageRef | None = None
    licence: str = ""
    """Of the document, if the source states one."""
    role: Role
    origin: Literal["native", "mined"] = "native"
    """native: shipped by the source. mined: found by demur."""
    level: Literal["passage", "section", "article", "page", "image", "quote"] = "passage"
    index_id: str = ""
    """The index that found it; for evidence that its source ships, the one that contains it."""
    mode: str = ""
    """Mined only: the retrieval mode (``image->image``, ``image->title``, ``text->text``, ``lexical`` ...)."""
    rank: int | None = None
    """1 is the best: in the search that found it, in its source's own ranking, or, of what a source ships unranked, in a
    draw."""
    score: float | None = None

    @classmethod
    def of(cls, document: Document, role: Role, **provenance: Any) -> Self:
        """The document as evidence in that role."""
        return cls(
            id=document.id,
            document=document.document,
            page=document.page,
            modality=document.modality,
            title=document.title,
            text=document.text,
            image=document.image,
            licence=document.licence,
            role=role,
            **({"level": "image"} if document.modality is Modality.IMAGE else {}) | provenance,
        )


Piece = TypeVar("Piece", Document, Evidence)


def with_ids(item: Piece, rename: Callable[[str], str]) -> Piece:
    """The item with other ids for itself, its document and its page; an empty one stays."""
    ids = {"id": item.id, "document": item.document, "page": item.page}
    return item.model_copy(update={name: rename(id) for name, id in ids.items() if id})


class AnswerSpec(Record):
    """What counts as a correct answer, and by which rule.

    ``accepted`` is any-of over all-of: ``(("Paris",),)`` one answer, ``(("Paris",), ("Lutetia",))`` two accepted forms,
    ``(("46", "27", "64"),)`` three parts that must all be there. Two kinds accept nothing: ``none`` (the documents do
    not answer it: to decline is right) and ``unknown`` (they do, but the source does not record the answer).
    """

    kind: Literal["string", "number", "date", "choice", "parts", "box", "none", "unknown"] = (
        "string"
    )
    accepted: tuple[tuple[str, ...], ...] = ()
    canonical: str = ""
    """The form for judges and readers; "": the first accepted form."""
    number: tuple[float, float] | None = None
    """kind=number: the closed range of right values, in ``unit``."""
    unit: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """kind=choice: (label, text) of every option."""
    box: tuple[float, float, float, float] | None = None
    """kind=box: (x1, y1, x2, y2); right when the intersection over union reaches ``tolerance``."""
    tolerance: float | None = None
    """box: minimum IoU. number: relative tolerance if there is no range."""
    rule: str = "demur"
    """Name of the normalisation and scoring rule of the source (``infoseek``, ``evqa``, ...)."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if any(not all(part.strip() for part in form) or not form for form in self.accepted):
            raise ValueError("an accepted answer is empty")
        has_answer = bool(self.accepted) or self.number is not None or self.box is not None
        if has_answer == (self.kind in ("none", "unknown")):
            raise ValueError(
                f"it has an answer, but its kind is {self.kind}"
                if has_answer
                else "no answer is given: set accepted, number or box, or the kind none or unknown"
            )
        if self.number is not None and self.number[0] > self.number[1]:
            raise ValueError(f"number range {self.number} runs backwards")
        return self

    @property
    def display_form(self) -> str:
        """The form for judges and readers."""
        if self.kind in ("none", "unknown"):
            return (
                "(the documents do not answer it)"
                if self.kind == "none"
                else "(nobody wrote it down)"
            )
        if self.canonical:
            return self.canonical
        if self.accepted:
            return "; ".join(self.accepted[0])
        return f"{self.number or self.box}"


class Sample(Record):
    """One question with its evidence: the unit that is gated, mined, kept and released."""

    id: str
    source: str
    question: str
    answers: AnswerSpec
    images: tuple[ImageRef, ...] = ()
    """Query images; empty for a text question."""
    answerable: bool = True
    gold: tuple[Evidence, ...] = ()
    negatives: tuple[Evidence, ...] = ()
    split: str = ""
    topic: str = ""
    """Category within the source (question kind, domain), for breakdowns."""
    cluster: str = ""
    """What samples share (entity, image), for clustered intervals."""
    attributes: dict[str, str] = {}
    licence: str = ""
    native: dict[str, Any] = {}
    """The source's original row, or its ids if size or licence forbid more."""
    source_ref: str = ""
    """Its file and line or row."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Earlier turns of the conversation; see `demur.core.turns`."""
        return turns_of(self.attributes.get(ATTRIBUTE))

    @property
    def question_with_turns(self) -> str:
        """The question, with what was said before it."""
        return asked_in(self.turns, self.question)

    @model_validator(mode="after")
    def _evidence_in_its_place(self) -> Self:
        turns_of(self.attributes.get(ATTRIBUTE))  # says what is wrong with them
        if not self.question.strip():
            raise ValueError("the question is empty")
        ids = [e.id for e in (*self.gold, *self.negatives)]
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            raise ValueError(f"evidence appears twice: {', '.join(twice)}")
        if any(e.role is not Role.GOLD for e in self.gold):
            raise ValueError("a distractor stands among the gold evidence")
        if any(e.role is not Role.DISTRACTOR for e in self.negatives):
            raise ValueError("gold evidence stands among the negatives")
        return self


# --- search, verdicts and decisions --------------------------------------------------------------


class Hit(Record):
    """One result of an index for one query."""

    document: str
    score: float
    rank: int = Field(ge=1)
    index_id: str
    mode: str


class Outcome(StrEnum):
    """Label of a graded answer: SimpleQA's three labels, VLM-DeflectionBench's three measures."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    DEFLECTED = "deflected"


class Status(StrEnum):
    """Whether there is a grade; every usable answer gets one.

    A system that *deflects* is GRADED with Outcome.DEFLECTED. FAILED: the system gave no usable answer (an error, an
    empty or malformed reply); no judge saw it. UNJUDGED: a judge's call failed, or its reply was unreadable after asking
    again; the next command asks once more. Neither is ever in a rate, and both are counted beside it.
    """

    GRADED = "graded"
    UNJUDGED = "unjudged"
    FAILED = "failed"


class Method(StrEnum):
    """How a verdict came about. The error of each is measured (`demur.judge.measures.judge_error`)."""

    CHOICE = "choice"
    """An option or a box of the question, by letter, text or figures."""
    NUMBER = "number"
    """A quantity with its sign, unit and range."""
    DATE = "date"
    MATCH = "match"
    """An accepted form and nothing beside it."""
    DECLINED = "declined"
    """The reply declines, by phrase or by the models that read refusals."""
    EQUIVALENCE = "equivalence"
    """The pair model: does the reply mean an accepted form?"""
    MODEL = "model"
    """A language model was asked."""
    PERSON = "person"


class Verdict(Record):
    """A judge's verdict on one response."""

    id: str
    """The id of its ask."""
    status: Status
    outcome: Outcome | None = None
    method: Method | None = None
    """None of a judge that does not say."""
    probability: float | None = Field(default=None, ge=0, le=1)
    """The calibrated chance that the outcome is right; None where nobody measured it (models, people)."""
    kind: str = ""
    """Of deflections ``refusal`` (will not), ``lack`` (cannot tell), ``asks back`` or ``echo``; of failed answers ``error``,
    ``empty``, ``malformed`` or ``starved``."""
    reason: str = ""
    """What decided, for people to read; why it is unjudged or failed."""
    credit: float | None = Field(default=None, ge=0, le=1)
    """Partial credit, if the judge rates (`demur.judge.rating`); None if it only labels."""
    judge: str
    prompt_sha256: str = ""
    model: str = ""
    raw: str = ""

    @model_validator(mode="after")
    def _outcome_only_when_graded(self) -> Self:
        if (self.outcome is not None) != (self.status is Status.GRADED):
            raise ValueError("a verdict has an outcome exactly when it is graded")
        return self


class GateVerdict(Record):
    """One stage's decision on one sample, with every gate's label."""

    sample: str
    stage: Literal["parametric", "solvable", "distractor", "count"]
    evidence: str = ""
    """stage=distractor: the distractor that was the only evidence."""
    labels: dict[str, str]
    """gate name -> correct | incorrect | deflected | missing | skipped"""
    answers: dict[str, str] = {}
    keep: bool
    why: str


class Drop(Record):
    """A sample or a distractor that left, and why."""

    sample: str
    evidence: str = ""
    stage: str
    reason: str
    detail: str = ""


# --- asks and responses --------------------------------------------------------------------------


class Scenario(StrEnum):
    """The evidence that a system gets.

    The first four are those of VLM-DeflectionBench (section 3.5): demur shows the evidence. The others test a whole RAG
    system with its own retriever, over a corpus that contains the gold, lacks it, or is empty
    (`demur.release.corpora`).
    """

    PARAMETRIC = "parametric"
    ORACLE = "oracle"
    REALISTIC = "realistic"
    ADVERSARIAL = "adversarial"
    FULL = "full"
    GOLD_REMOVED = "gold-removed"
    EMPTY = "empty"

    @property
    def should(self) -> Literal["answer", "deflect"]:
        """The right behaviour for an answerable question."""
        return (
            "answer" if self in (Scenario.ORACLE, Scenario.REALISTIC, Scenario.FULL) else "deflect"
        )

    @property
    def shows_evidence(self) -> bool:
        """Whether it is one of the four in which demur shows, or withholds, evidence."""
        return self not in (Scenario.FULL, Scenario.GOLD_REMOVED, Scenario.EMPTY)


class ContextSet(Record):
    """The evidence for one ask of a sample, in its order."""

    id: str
    """Content hash of everything below."""
    sample: str
    scenario: Scenario
    evidence: tuple[str, ...]
    """Evidence ids in the order shown."""
    gold: tuple[str, ...] = ()
    """The gold ids among them."""
    expected: Literal["answer", "deflect"]
    k_asked: int = Field(ge=0)
    k_used: int = Field(ge=0)
    recipe: str
    """Canonical text of the recipe that made it; parses back."""
    seed: int


class Shown(Record):
    """Evidence as a system sees it: without role, origin and score."""

    id: str
    modality: Modality
    title: str
    text: str | None = None
    image: ImageRef | None = None


class Ask(Record):
    """Everything that a system under test gets for one answer."""

    id: str
    """Content hash of context set, condition and prompts: the key of its answer."""
    sample: str
    context: str
    scenario: Scenario
    question: str
    images: tuple[ImageRef, ...] = ()
    evidence: tuple[Shown, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    condition: str = "moderate"
    """Canonical text of the prompting condition (strictness and add-ons)."""
    repeat: int = 0
    """Number of this answer, where several independent answers to the same question are wanted."""
    recipe: str = ""
    """Canonical text of the recipe of the context set (``realistic(k=3)``); parses back."""
    k: int = 0
    """Distractors shown."""
    exclude: tuple[str, ...] = ()
    """Scenario gold-removed: ids of the corpus that must not be retrieved."""
    turns: tuple[Turn, ...] = ()
    """Earlier turns of the conversation."""

    @property
    def corpus(self) -> str:
        """The corpus for a system with its own retriever; "" if demur shows the evidence."""
        return "" if self.scenario.shows_evidence else self.scenario.value

    @property
    def question_with_turns(self) -> str:
        """The question, with what was said before it."""
        return asked_in(self.turns, self.question)


class TextPart(Record):
    """Text in a message."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(Record):
    """An image in a message; its bytes are read when the request is sent."""

    type: Literal["image"] = "image"
    image: ImageRef


class Message(Record):
    """One turn: its parts in order, text and images interleaved."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[TextPart | ImagePart, ...]


class Request(Record):
    """One model call. All fields except ``item``, ``service_tier`` and ``draw=0`` are its identity; see
    `demur.models.identity`.
    """

    model: str
    """Model string without its address: the same model at another port is the same request."""
    messages: tuple[Message, ...]
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    top_logprobs: int | None = None
    json_schema: dict[str, Any] | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the body: top_k, repetition_penalty, chat_template_kwargs ..."""
    draw: int = 0
    """Number of this draw, where several independent draws of the same request are wanted."""
    service_tier: Literal["flex"] | None = None
    """``flex``: answered when the vendor has room, for a lower price. Not part of its identity: the reply is the same."""
    item: str = ""
    """Its item, for errors and progress; not part of its identity."""


class Usage(Record):
    """Tokens as the server counted them."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0

    @property
    def reported(self) -> bool:
        """Whether the server counted both: no prompt and no reply has 0 tokens."""
        return self.prompt > 0 and self.completion > 0


class TokenLogprob(Record):
    """One generated token with its log-probability (natural log), and the most likely tokens."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


class Retrieved(Record):
    """One result of a system's own retriever for a question."""

    id: str = ""
    """The system's id; "" if it gives none."""
    rank: int = Field(ge=1)
    score: float | None = None
    text: str = ""


class Response(Record):
    """The response to one ask or request. If ``error`` is set, there is no answer."""

    text: str = ""
    reasoning: str = ""
    confidence: float | None = None
    """The system's own confidence in [0, 1], if it states one."""
    computed_confidence: float | None = None
    """What a method makes of further calls or tokens, in [0, 1] (P(True), a share of votes); nobody stated it."""
    logprobs: tuple[TokenLogprob, ...] = ()
    usage: Usage = Usage()
    finish_reason: str = ""
    served_by: str = ""
    latency_s: float = 0.0
    first_s: float = 0.0
    """Seconds until its first byte, or the first event of a stream; 0 if unknown."""
    retrieved: tuple[Retrieved, ...] = ()
    """Results of the system's own retriever, best first, if it reports them."""
    citations: tuple[str, ...] = ()
    """Ids that its answer cites."""
    abstained: bool | None = None
    """Whether the system says that it abstained; None if it does not say."""
    cost: float | None = None
    """US dollars, if the system reports them."""
    cached: bool = False
    cuts: tuple[str, ...] = ()
    """Evidence that the model could not be shown: one line for each piece, beginning with its id."""
    asked_without: tuple[str, ...] = ()
    """What its endpoint refused of a question of demur's own: temperature, logprobs, json_schema."""
    error: str = ""
    """One line with the cause; "" if there is an answer."""


class Measure(Record):
    """A rate or mean with its denominator and interval."""

    name: str
    value: float | None
    """The plain count over ``n``; None if ``n`` is zero: undefined, never 0."""
    n: int
    """Graded items: all but failed and unjudged ones."""
    repeats: int = 0
    """Graded answers to these items, if each was asked several times; else 0."""
    unjudged: int = 0
    failed: int = 0
    least: float = 0.0
    """What the worst answer counts: 0 of a share, -1 of truthfulness."""
    low: float | None = None
    high: float | None = None
    """Ends of the interval: of sampling and, where it was measured, of the judge's error."""
    interval: str = ""
    """Canonical text of the interval method (``wilson(0.95)``, ``cluster-bootstrap(0.95,2000)``)."""
    corrected: float | None = None
    """The rate as people's labels put it where there are enough of them, else less the judge's known bias where the
    interval leaves the plain count outside."""
    labels: int = 0
    """Labels of people that ``corrected`` and the interval rest on; 0: on the verdicts alone."""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The value if none, and if all, of the failed and unjudged answers were hits (as `least` has it); None without
        answers.

        Items that were asked several times are weighted by their number of answers.

        >>> Measure(name="accuracy", value=0.5, n=60, failed=40).bounds
        (0.3, 0.7)
        """
        graded, absent = self.repeats or self.n, self.failed + self.unjudged
        if not graded + absent:
            return None
        hits = (self.value or 0.0) * graded
        worst = hits + self.least * absent
        return worst / (graded + absent), (hits + absent) / (graded + absent)


class Row(Record):
    """One graded ask as a flat row: a run's ``rows.parquet`` has exactly these columns, for measures and reports."""

    ask: str
    context: str
    sample: str
    source: str
    topic: str = ""
    cluster: str = ""
    query_modality: Literal["text", "text+image"] = "text"
    gold_modality: Literal["none", "text", "image", "both"] = "none"
    """Of all the sample's gold evidence, shown or not."""
    negative_modality: Literal["none", "text", "image", "both"] = "none"
    """Of the distractors shown."""
    scenario: Scenario
    condition: str
    recipe: str
    repeat: int = 0
    """Number of this answer; all answers to one context and condition are one item."""
    k_used: int
    """Distractors shown."""
    expected: Literal["answer", "deflect"]
    status: Status
    outcome: Outcome | None = None
    reason: str = ""
    answer: str = ""
    confidence: float | None = None
    error: str = ""
    kind: str = ""
    """`Verdict.kind`."""
    method: str = ""
    """`Verdict.method`."""
    probability: float | None = None
    """`Verdict.probability`."""

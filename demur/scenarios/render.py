"""Rendering: the messages that a model gets for one ask.

Earlier turns of a conversation come first, each as a message of its own. The last message has, in this order::

    [1] TITLE                 text evidence: number, title, text
    text ...
    [2] TITLE                 image evidence: number, caption, then the image itself
    <image>
    The image that the question is about:      (query images, when there are any and the model sees images)
    <image>
    Question: ...             the condition's prompt (demur/scenarios/prompts/ask.*.md)

Models differ in how many images they take: ``many``, ``one`` (the query image; evidence images become captions) or
``none`` (captions only). Rendering returns what it left out as cuts, and the response records them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from demur.core.errors import DataError, ItemError, UsageError
from demur.core.records import (
    Ask,
    ContextSet,
    Evidence,
    ImagePart,
    Message,
    Modality,
    Sample,
    Shown,
    TextPart,
)
from demur.core.store import digest
from demur.scenarios.conditions import Condition, Prompts

Images = Literal["many", "one", "none"]


class Layout(NamedTuple):
    """What a model's prompt can hold.

    Attributes:
        images: how many images the model takes in one request.
        max_tokens: budget for the whole prompt, in estimated tokens; None for no limit.
    """

    images: Images = "many"
    max_tokens: int | None = None


EVERYTHING = Layout()
IMAGE_TOKENS = 1000
"""Estimated tokens of an image, for a budget of tokens."""


class Rendered(NamedTuple):
    """Messages for a model, and what was left out of them."""

    messages: tuple[Message, ...]
    cuts: tuple[str, ...]


def as_system_sees(evidence: Evidence) -> Shown:
    """Evidence as a system sees it: without role, origin and score."""
    return Shown(
        id=evidence.id,
        modality=evidence.modality,
        title=evidence.title,
        text=evidence.text,
        image=evidence.image,
    )


def ask(
    sample: Sample,
    context: ContextSet,
    condition: Condition,
    prompts: Prompts,
    repeat: int = 0,
    exclude: Sequence[str] = (),
) -> Ask:
    """The ask of a sample in a context under a condition.

    Its id covers everything that a system can react to: the question, the content of images and evidence in their
    order, and the words of the prompts. Two runs share an answer exactly if these are equal.

    Args:
        repeat: which of several independent repeats.
        exclude: ids that a system's own retriever must leave out.
    """
    by_id: Mapping[str, Evidence] = {e.id: e for e in (*sample.gold, *sample.negatives)}
    missing = [i for i in context.evidence if i not in by_id]
    if missing:
        raise DataError(
            f"the context names evidence that the sample lacks: {', '.join(missing)}",
            item=sample.id,
        )
    parts = tuple(as_system_sees(by_id[i]) for i in context.evidence)
    identity: dict[str, object] = {
        "question": sample.question,
        "choices": sample.answers.choices,
        "images": [i.sha256 for i in sample.images],
        "evidence": [
            [s.modality, s.title, s.text, s.image.sha256 if s.image else None] for s in parts
        ],
        "scenario": context.scenario,
        "recipe": context.recipe,
        "sample": sample.id,
        "condition": str(condition),
        "prompts": prompts.used(condition),
    }
    if exclude:
        identity["exclude"] = list(exclude)
    if sample.turns:
        identity["turns"] = sample.turns
    if (
        repeat
    ):  # the first has the id of a run without repeats; "draw" is the key of earlier versions
        identity["draw"] = repeat
    return Ask(
        id=digest(identity, 16),
        sample=sample.id,
        context=context.id,
        scenario=context.scenario,
        question=sample.question,
        images=sample.images,
        evidence=parts,
        choices=sample.answers.choices,
        condition=str(condition),
        repeat=repeat,
        recipe=context.recipe,
        k=context.k_used,
        exclude=tuple(exclude),
        turns=sample.turns,
    )


def tokens(text: str) -> int:
    """A cautious estimate of a text's tokens: one per three and a half characters, at least one per word."""
    return max(len(text.split()), -(-len(text) * 2 // 7))


def render(
    ask: Ask,
    condition: Condition,
    prompts: Prompts,
    layout: Layout = EVERYTHING,
) -> Rendered:
    """The messages for one ask.

    Args:
        condition: the ask's own.
        layout: what the model can take.

    Returns:
        A system message, the earlier turns of a conversation, and a user message; and the cuts: one line per piece of
        evidence that was shortened, dropped, or replaced by its caption.

    Raises:
        ItemError: the prompt is over the budget even without evidence.
    """
    if str(condition) != ask.condition:
        raise UsageError(f"the ask was made for {ask.condition!r}, not {condition!s}", item=ask.id)
    cuts: list[str] = []
    question = prompts.ask(_with_choices(ask), condition)
    query_images = ask.images if layout.images != "none" else ()
    if layout.images == "one" and len(query_images) > 1:
        cuts.append(
            f"{len(query_images) - 1} of {len(query_images)} query images: the model takes one image"
        )
        query_images = query_images[:1]
    if layout.images == "none" and ask.images:
        cuts.append(f"{len(ask.images)} query image(s): the model takes no images")
    conversation = "\n".join([*(turn.content for turn in ask.turns), question])
    texts = _fit_to_budget(
        ask, conversation, len(query_images), layout, prompts.system(condition), cuts
    )

    parts: list[TextPart | ImagePart] = []
    for number, (evidence, text) in enumerate(zip(ask.evidence, texts, strict=True), start=1):
        if text is None:
            continue
        if evidence.modality is Modality.TEXT or evidence.image is None:
            parts.append(TextPart(text=f"[{number}] {evidence.title}\n{text}\n\n"))
        elif layout.images == "many":
            parts += [
                TextPart(text=f"[{number}] {evidence.title}\n"),
                ImagePart(image=evidence.image),
            ]
        else:
            takes = "no images" if layout.images == "none" else "one image"
            cuts.append(f"{evidence.id}: the model takes {takes}, its caption alone is shown")
            parts.append(
                TextPart(
                    text=f"[{number}] (an image, described by its caption) {evidence.title}\n\n"
                )
            )
    if query_images:
        which = (
            "The image that the question is about:\n"
            if len(query_images) == 1
            else "The images of the question:\n"
        )
        parts.append(TextPart(text=which))
        parts += [ImagePart(image=image) for image in query_images]
    parts.append(TextPart(text=question))
    user = Message(role="user", parts=_merge_texts(parts))
    earlier_messages = [
        Message(role=turn.role, parts=(TextPart(text=turn.content),)) for turn in ask.turns
    ]
    if words := prompts.system(condition):
        earlier_messages.insert(0, Message(role="system", parts=(TextPart(text=words),)))
    return Rendered((*earlier_messages, user), tuple(cuts))


def _with_choices(ask: Ask) -> str:
    options = "".join(f"\n({label}) {text}" for label, text in ask.choices)
    return ask.question + options


def _fit_to_budget(
    ask: Ask, question: str, n_query: int, layout: Layout, system: str, cuts: list[str]
) -> list[str | None]:
    """The text of each piece of evidence within the budget; None for those left out, the last first."""
    texts: list[str | None] = [e.text or "" for e in ask.evidence]
    if layout.max_tokens is None:
        return texts

    def cost(i: int) -> int:
        image = ask.evidence[i].image is not None and layout.images == "many"
        return (
            tokens(ask.evidence[i].title)
            + tokens(texts[i] or "")
            + 8
            + (IMAGE_TOKENS if image else 0)
        )

    fixed = tokens(system) + tokens(question) + n_query * IMAGE_TOKENS + 32
    room = layout.max_tokens - fixed
    if room < 0:
        raise ItemError(
            f"question and prompts alone need about {fixed:,} tokens, the budget is {layout.max_tokens:,}",
            item=ask.sample,
            cure="raise the token budget",
        )
    spent = sum(cost(i) for i in range(len(texts)))
    # First every text is shortened to the same length, so that no position is favoured.
    longest = max((tokens(t) for t in texts if t), default=0)
    while spent > room and longest > 32:
        longest = longest * 3 // 4
        for i, text in enumerate(texts):
            if text and tokens(text) > longest:
                texts[i] = text[: longest * 7 // 2].rsplit(" ", 1)[0] + " ..."
        spent = sum(cost(i) for i in range(len(texts)) if texts[i] is not None)
    for i in reversed(range(len(texts))):
        if spent <= room:
            break
        spent -= cost(i)
        texts[i] = None
        cuts.append(f"{ask.evidence[i].id}: left out, over the token budget")
    for evidence, text in zip(ask.evidence, texts, strict=True):
        if text is not None and text != (evidence.text or ""):
            cuts.append(f"{evidence.id}: shortened to about {tokens(text)} tokens")
    return texts


def _merge_texts(parts: list[TextPart | ImagePart]) -> tuple[TextPart | ImagePart, ...]:
    """Merge neighbouring texts: fewer parts, and the same bytes for the server's prefix cache."""
    merged: list[TextPart | ImagePart] = []
    for part in parts:
        previous = merged[-1] if merged else None
        if isinstance(part, TextPart) and isinstance(previous, TextPart):
            merged[-1] = TextPart(text=previous.text + part.text)
        else:
            merged.append(part)
    return tuple(merged)

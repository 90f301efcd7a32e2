"""Building a set: each answerable question with a twin that lost its answer, checked, balanced, and explained.

    pool -> classify -> select -> transform -> structure -> self-verification -> consensus of two -> items
                           ^ up to 3 alternatives ^            refined and tried again, up to 5 times; or to people

Every decision is one line of ``decisions.jsonl``: a build that was killed resumes, and ends in the same bytes. Pairs
are made several at once, in waves of `WAVE`: which transformations come first is decided for a whole wave before any of
it is made, so that the set is the same however many calls are in flight. Twins that two models disagree on are in
``queue/`` for people (``demur annotate --out DIR/queue``); the next build takes those that people call unanswerable.
Source: sections 4 and C to F.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from functools import partial, reduce
from operator import add
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from demur.core.errors import (
    DataError,
    DemurError,
    ItemError,
    MissingExtra,
    PermanentError,
    UsageError,
)
from demur.core.images import image_ref, rgb
from demur.core.records import AnswerSpec, ImagePart, ImageRef, Message, Request, TextPart
from demur.core.store import (
    JsonlLog,
    Problems,
    canonical,
    digest,
    read_json,
    read_jsonl,
    seed_of,
    write_atomic,
    write_json,
)
from demur.core.worker import Worker
from demur.indexing.encoders import open_encoder
from demur.models import (
    Budget,
    Estimate,
    ModelOptions,
    estimate_calls,
    model_id,
    open_model,
    run_sync,
)
from demur.models.lenient import LenientModel
from demur.models.names import revision_of
from demur.models.ping import ping
from demur.reports.tables import Table, texts, write_tables
from demur_suites.files import keep_image, note_asked_without
from demur_suites.mm_aqa.conditions import filled, text
from demur_suites.mm_aqa.items import CATEGORIES, Item, category_of
from demur_suites.mm_aqa.ocr import Reader
from demur_suites.mm_aqa.people import queue, with_choices
from demur_suites.mm_aqa.pool import Answerable, Pool, open_pool
from demur_suites.mm_aqa.routing import (
    Judged,
    dependency_by_rules,
    kinds,
    question_kind,
    read_dependency,
    visual_words,
)
from demur_suites.mm_aqa.selecting import Features, Selected, select
from demur_suites.mm_aqa.transforms import Given, Infeasible, Made, accepted, transform
from demur_suites.mm_aqa.transforms.pages import blur, figure, mask
from demur_suites.mm_aqa.transforms.questions import unit_of, years
from demur_suites.mm_aqa.transforms.reading import grids, numeric
from demur_suites.mm_aqa.verifying import Vote, consensus, passes, read_vote, structural
from demur_suites.tables import table

if TYPE_CHECKING:
    from PIL.Image import Image

    from demur.models import Model

RECIPE, DECISIONS = "recipe.json", "decisions.jsonl"
ALTERNATIVES, RETRIES = 3, 5
"""Other transformations, where the verifier can still answer a twin; turns after the panel rejected one."""
WAVE = 16
"""Pairs whose first transformations are decided together, and most that are made at once; the set depends on it."""
HARDER = 0.25
"""Strength that each retry adds."""
REWRITE_TOKENS, VOTE_TOKENS = 200, 200


@dataclass
class Models:
    """The models of a build; "" for none.

    Attributes:
        rewriter: rewrites questions, writes notes, and judges how much a question needs its image.
        verifier: checks each twin.
        panel: the two of the consensus, or none.
        ledger: keeps replies, each paid for once.
    """

    rewriter: str = ""
    verifier: str = ""
    panel: tuple[str, ...] = ()
    ledger: Path = Path("calls.sqlite")
    budget: float | None = None
    concurrency: int = 8
    _opened: dict[str, Model] = field(default_factory=dict)
    _shown: dict[str, bytes] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _calls: Worker = field(default_factory=lambda: Worker("mm-aqa-calls"))

    @property
    def names(self) -> tuple[str, ...]:
        """Each model once."""
        return tuple(dict.fromkeys(filter(None, (self.rewriter, self.verifier, *self.panel))))

    def open(self) -> None:
        """Open each model once, on a thread of their own.

        That every model answers is checked here for a new set; for one that was begun before, ahead of a model's first
        call whose reply is not kept.

        Raises:
            DemurError: one of them does not answer.
        """

        async def opened() -> None:
            begun = self.ledger.is_file()
            for name in () if begun else self.names:
                await ping([name], lists=False)
            budget = None if self.budget is None else Budget(self.budget).recorded_in(self.ledger)
            for name in self.names:
                made = open_model(
                    name,
                    ModelOptions(
                        ledger=self.ledger,
                        concurrency=self.concurrency,
                        budget=budget,
                        read_image=lambda ref: self._shown[ref.sha256],
                        before_first=partial(ping, [name], lists=False) if begun else None,
                    ),
                )
                self._opened[name] = LenientModel(await self._stack.enter_async_context(made))

        run_sync(self._calls.run(opened()))

    def close(self) -> None:
        """End all connections, and the thread."""

        async def closed() -> None:
            await self._calls.run(self._stack.aclose())
            await self._calls.close()

        run_sync(closed())

    def forget_images(self) -> None:
        """Forget the images of finished calls."""
        self._shown.clear()

    def ask(
        self,
        model: str,
        prompt: str,
        pictures: tuple[tuple[ImageRef, bytes], ...],
        item: str,
        most: int,
    ) -> str:
        """One reply, from any thread; "" where this one call fails.

        Raises:
            DemurError: the model cannot be reached, refuses everything, or the budget is used up.
        """
        self._shown |= {ref.sha256: data for ref, data in pictures}
        request = asked(model, prompt, [ref for ref, _ in pictures], item, most)

        async def reply() -> str:
            try:
                found = await self._opened[model].complete(request)
            except ItemError:
                return ""
            note_asked_without(self.ledger.parent, request.model, found)
            return found.text

        return run_sync(self._calls.run(reply()))


def rewriter_of(models: Models, item: str) -> Callable[[str, dict[str, str]], str]:
    """The function that a transformation calls for another question: (name of a prompt, its fields) -> reply."""

    def rewrite(prompt: str, words: dict[str, str]) -> str:
        own = text(prompt)
        whole = own if "$question" in own else text("rewrite.v1.md").replace("$task", own)
        return models.ask(
            models.rewriter, Template(whole).safe_substitute(words), (), item, REWRITE_TOKENS
        )

    return rewrite


def asked(model: str, prompt: str, refs: list[ImageRef], item: str, most: int) -> Request:
    """A call with images before its words, at temperature 0."""
    parts = (*(ImagePart(image=ref) for ref in refs), TextPart(text=prompt))
    messages = (Message(role="user", parts=parts),)
    return Request(
        model=model_id(model), messages=messages, temperature=0.0, max_tokens=most, item=item
    )


def build(
    out: Path,
    *,
    seed: int,
    pool: str,
    pairs: int,
    rewriter: str,
    verifier: str,
    panel: str,
    ocr: str,
    plan: str,
    budget: float,
    concurrency: int,
    unit_swap: str,
    meaning: str,
) -> Path:
    """Make a set of items in ``out``; see `demur_suites.mm_aqa.suite.MMAQA.build_options`.

    Raises:
        UsageError: the pool holds nothing usable, ``panel`` names other than two models, or ``out`` holds another set.
    """
    two = tuple(m.strip() for m in panel.split(",") if m.strip())
    if len(two) not in (0, 2):
        raise UsageError(
            f"the panel needs two models, not {len(two)}",
            cure="name two, joined by a comma, or none",
        )
    opened = open_pool(pool, seed, work=out)
    chosen = opened.questions[:pairs]
    models = Models(rewriter, verifier, two, out / "calls.sqlite", budget or None, concurrency)
    if plan == "yes":
        known = _decisions(out)
        left = [a for a in chosen if a.id not in known]
        write_json(out / "plan.json", planned(left, models).model_dump(mode="json"))
        return out / "plan.json"
    recipe = {
        "pool": pool,
        "pairs": pairs,
        "seed": seed,
        "rewriter": rewriter,
        "verifier": verifier,
        "panel": panel,
        "ocr": ocr,
        "questions": digest(_made_of(chosen, models), 16),
    }
    if unit_swap == "yes":
        recipe["unit_swap"] = unit_swap
    similar = None
    if rewriter:
        recipe["meaning"], similar = meaning_by(meaning)
    _same(out, recipe)
    reader = Reader(out / "words.jsonl", ocr=ocr == "yes")
    models.open()
    try:
        write_json(out / RECIPE, recipe)  # not before: an address may be corrected
        decisions = _Work(out, seed, chosen, models, reader, unit_swap == "yes", similar).decide()
    finally:
        models.close()
    reader.settle()
    _finish(out, recipe, opened, decisions)
    return out


def meaning_by(name: str) -> tuple[str, Callable[[str, str], float] | None]:
    """How to compare the meaning of two questions: (name, cosine of their embeddings, or None for their words).

    Without a name the offline encoder, where its extra is installed.
    """
    if name == "words":
        return name, None
    try:
        encoder = open_encoder(name or "offline")
    except MissingExtra:
        if name:
            raise
        return "words", None

    def similar(one: str, other: str) -> float:
        a, b = encoder.texts([one, other], "text")
        return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-9))

    return encoder.name, similar


def _same(out: Path, recipe: Mapping[str, Any]) -> None:
    """Raise UsageError where the folder holds a set of another recipe."""
    old = read_json(out / RECIPE) if (out / RECIPE).is_file() else recipe
    if old != recipe:
        other = ", ".join(k for k in recipe if old.get(k) != recipe[k])
        raise UsageError(
            f"holds a set with other options ({other})", item=str(out), cure="choose another --out"
        )


def _made_of(chosen: Sequence[Answerable], models: Models) -> list[Any]:
    """What decisions depend on: questions, answers and images, and the code of models."""
    pairs = [[a.id, a.question, a.answers.model_dump(mode="json"), a.seen] for a in chosen]
    return [pairs, [revision_of(name) for name in models.names]]


def planned(chosen: Sequence[Answerable], models: Models) -> Estimate:
    """The cost of these pairs: one call of each stage for each; alternatives and retries add to it."""
    stages = [
        ("dependency", models.rewriter, "dependency.v1.md", 20),
        ("rewrite", models.rewriter, "rewrite.v1.md", REWRITE_TOKENS),
        ("self-verification", models.verifier, "verify.v1.md", VOTE_TOKENS),
        *(
            (f"consensus {n}", m, "verify.v1.md", VOTE_TOKENS)
            for n, m in enumerate(models.panel, start=1)
        ),
    ]
    if not models.names:
        raise UsageError("no model is named, so the build costs nothing", cure="leave --plan out")
    refs = {
        a.id: [image_ref(p.data, f"{a.id}/{n}") for n, p in enumerate(a.pictures())] for a in chosen
    }
    found = []
    for stage, model, prompt, most in stages:
        if not model:
            continue
        requests = []
        for a in chosen:
            words = filled(
                prompt,
                question=with_choices(a.question, a.answers),
                answer=a.answers.display_form,
                task="",
            )
            requests.append(
                asked(model, words, [] if stage == "rewrite" else refs[a.id], a.id, most)
            )
        found.append(estimate_calls(stage, model, requests, ledger=models.ledger))
    return reduce(add, found)


def _ends(error: DemurError) -> bool:
    """Whether the build must stop: the budget is used up, a model refuses everything, or a package is missing."""
    permanent = isinstance(error, PermanentError) and not isinstance(error, ItemError)
    return permanent or error.exit_code == 3 or isinstance(error, MissingExtra)


class Begun(NamedTuple):
    """A pair before its twin is made.

    Attributes:
        question: with its answer.
        images: decoded.
        refs: of the images in the set's folder.
        features: for the selector.
        told: how the features were found.
        failed: why no twin can be made of it; "" where one can.
    """

    question: Answerable
    images: tuple[Image, ...] = ()
    refs: tuple[ImageRef, ...] = ()
    features: Features = Features("images")
    told: tuple[str, ...] = ()
    failed: str = ""


def _decisions(out: Path) -> dict[str, dict[str, Any]]:
    """Pair -> the decision on it, so far; pairs that failed are made again."""
    path = out / DECISIONS
    rows = read_jsonl(path, Problems()) if path.is_file() else ()
    return {row["pair"]: row for _, row in rows if row["status"] != "failed"}


@dataclass
class _Work:
    """The making of one set, pair by pair."""

    out: Path
    seed: int
    chosen: list[Answerable]
    models: Models
    reader: Reader
    unit_swap: bool
    similar: Callable[[str, str], float] | None

    def __post_init__(self) -> None:
        self.faults: list[Exception] = []  # what demur did not foresee
        self.others: dict[str, tuple[tuple[str, str], ...]] = {
            subset: tuple(
                (a.question, a.answers.display_form) for a in self.chosen if a.subset == subset
            )
            for subset in ("images", "documents")
        }

    def decide(self) -> list[dict[str, Any]]:
        """One decision a pair, in the order of the pool; earlier decisions are kept."""
        path, known = self.out / DECISIONS, _decisions(self.out)
        found: list[dict[str, Any]] = []
        pool = ThreadPoolExecutor(min(self.models.concurrency, WAVE), thread_name_prefix="mm-aqa")
        try:
            with JsonlLog(path) as log:
                for start in range(0, len(self.chosen), WAVE):
                    wave = self.chosen[start : start + WAVE]
                    missing = [a for a in wave if a.id not in known]
                    begun = dict(
                        zip((a.id for a in missing), pool.map(self._begin, missing), strict=True)
                    )
                    # how often each was used: as made in earlier waves, as first chosen in this one
                    names = [r["transform"] for r in found if r["transform"]]
                    orders: list[tuple[Begun, Selected]] = []
                    for a in wave:
                        if a.id in begun:
                            order = select(begun[a.id].features, names)
                            orders.append((begun[a.id], order))
                            first = order.order[0].name if order.order else ""
                        else:
                            first = known[a.id].get("first", "")
                        names += [first] if first else []
                    for row in pool.map(lambda pair: self._decided(*pair), orders):
                        log.append(row)
                        known[row["pair"]] = row
                    found += [known[a.id] for a in wave]
                    self.models.forget_images()
                    self._settle(found)
        finally:
            pool.shutdown(cancel_futures=True)
        write_atomic(path, "".join(canonical(row) + "\n" for row in found))
        return found

    def _settle(self, found: Sequence[Mapping[str, Any]]) -> None:
        """End a build of which every pair failed: as soon as demur itself was at fault, else when all were tried."""
        ended = self.faults or len(found) == len(self.chosen)
        if ended and all(row["status"] == "failed" for row in found):
            raise DataError(
                f"all {len(found)} pairs so far failed, the first: {'; '.join(found[0]['told'])}",
                item=str(self.out / DECISIONS),
                cure="correct the cause and run the same build again",
            ) from next(iter(self.faults), None)

    def _why(self, error: Exception) -> str:
        """The reason of a pair that failed; raises what ends the build."""
        if isinstance(error, DemurError):
            if _ends(error):
                raise error
            return str(error)
        self.faults.append(error)
        return f"{type(error).__name__}: {error}"

    def _begin(self, a: Answerable) -> Begun:
        """A pair's images, the words on them, and its features."""
        try:
            pictures = a.pictures()
            images = tuple(rgb(p.data, a.id) for p in pictures)
            for image, p in zip(images, pictures, strict=True):
                if p.words is not None:
                    self.reader.know(image, p.words)
            refs = tuple(keep_image(self.out, p.data) for p in pictures)
            shown = tuple(zip(refs, (p.data for p in pictures), strict=True))
            features, told = self._features(a, images, shown)
            return Begun(a, images, refs, features, tuple(told))
        except Exception as error:  # whatever it is, it costs this pair alone
            return Begun(a, failed=self._why(error))

    def _decided(self, begun: Begun, order: Selected) -> dict[str, Any]:
        """The decision on a pair; an error of this pair alone is the decision "failed"."""
        if begun.failed:
            return _row(begun, "failed", told=[begun.failed])
        attempts: list[dict[str, Any]] = []
        try:
            return self._pair(begun, order, attempts)
        except Exception as error:
            of = f"{attempts[-1]['transform']}: " if attempts else ""
            return _row(begun._replace(refs=()), "failed", told=[of + self._why(error)])

    def _pair(
        self, begun: Begun, order: Selected, attempts: list[dict[str, Any]]
    ) -> dict[str, Any]:
        a, images = begun.question, begun.images
        told = [*begun.told, *order.reasons]
        names = [c.name for c in order.order]
        scores = {c.name: c for c in order.order}
        first = names[0] if names else ""
        every = {
            c.name: c for c in (*order.order, *order.rated)
        }.values()  # the eligible ones first, as they are tried
        ranking = [
            {"transform": c.name, "score": round(c.score, 3), "why": list(c.why)} for c in every
        ]
        row = partial(_row, begun, first=first, ranking=ranking, attempts=attempts)
        for turn in range(1 + RETRIES):
            start = turn % max(len(names), 1)  # refined: the next ones in the ranking, and stronger
            candidate = self._candidate(a, images, [*names[start:], *names[:start]], turn, attempts)
            if candidate is None:
                break
            name, given, twin = candidate
            kept = tuple(map(_png, twin.images))
            votes = [self._vote(m, twin.question, kept, a) for m in self.models.panel]
            status = consensus(votes[0], votes[1]) if votes else "accepted"
            attempts[-1] |= {
                "panel": [v._asdict() for v in votes],
                "consensus": status if votes else "not asked",
            }
            filed = [keep_image(self.out, data).model_dump(mode="json") for _, data in kept]
            if status == "rejected":  # kept, so that people can look at this side too
                attempts[-1] |= {"question": twin.question, "images": filed}
                continue
            own = scores.get(name)
            params = {
                **twin.measured,
                "seed": given.seed,
                "strength": given.strength,
                "score": round(own.score, 3) if own else 0.0,
            }
            if name != first:
                told += [
                    f"{name} in its place" + (f": score {own.score:.2f}" if own else ""),
                    *(own.why if own else ()),
                ]
            return row(
                status,
                transform=name,
                question=twin.question,
                images=filed,
                params=params,
                told=told,
            )
        return row("rejected", told=told)

    def _candidate(
        self,
        a: Answerable,
        images: tuple[Image, ...],
        names: list[str],
        turn: int,
        attempts: list[dict[str, Any]],
    ) -> tuple[str, Given, Made] | None:
        """The first feasible twin that is sound and passes self-verification, after at most three that do not pass."""
        chain: list[tuple[str, Any]] = [(n, transform(n).apply) for n in names]
        if a.subset == "documents":
            chain += [("blur-figure-region", blur), ("remove-visual-element", mask)]
        answered = 0
        for name, apply in chain:
            if answered > ALTERNATIVES:
                break
            seed = seed_of(self.seed, a.id, name, turn) % 2**31
            given = Given(
                a.question,
                images,
                a.answers,
                seed=seed,
                strength=1 + HARDER * turn,
                words=self.reader,
                rewrite=rewriter_of(self.models, a.id) if self.models.rewriter else None,
                others=self.others[a.subset],
                similar=self.similar,
            )
            row: dict[str, Any] = {"transform": name, "turn": turn}
            attempts.append(row)
            try:
                twin: Made = apply(given)
            except Infeasible as error:
                row["why"] = error.message
                continue
            if why := structural(given, twin):
                row["why"] = f"structure: {why}"
                continue
            if self.models.verifier:
                vote = self._vote(
                    self.models.verifier, twin.question, tuple(map(_png, twin.images)), a
                )
                row["self"] = vote._asdict()
                if not passes(vote):
                    answered += 1
                    row["why"] = f"self-verification: {vote.says} {vote.confidence}".strip()
                    continue
            return name, given, twin
        return None

    def _features(
        self, a: Answerable, images: tuple[Image, ...], pictures: tuple[tuple[ImageRef, bytes], ...]
    ) -> tuple[Features, list[str]]:
        common: dict[str, Any] = {
            "images": len(images),
            "dated": bool(
                years(a.question) or (self.models.rewriter and "temporal" in kinds(a.question))
            ),
            "has_model": bool(self.models.rewriter),
            "complexity": min(1.0, len(a.question.split()) / 40),
            "others": len(self.others[a.subset]) - 1,
            "quantitative": a.answers.kind == "number"
            or any(c.isdigit() for c in a.answers.display_form),
            "visual": visual_words(a.question),
        }
        if a.subset == "images":
            judged = dependency_by_rules(a.question, len(images))
            if self.models.rewriter:
                reply = self.models.ask(
                    self.models.rewriter,
                    filled("dependency.v1.md", question=with_choices(a.question, a.answers)),
                    pictures,
                    a.id,
                    20,
                )
                if level := read_dependency(reply):
                    judged = Judged(level, "model", reply.strip()[:100])
            told = [f"{judged.dependency} by {judged.by}: {judged.why}"]
            return Features("images", dependency=judged.dependency, **common), told
        words = [self.reader(image) for image in images]
        several = kinds(a.question)
        return Features(
            "documents",
            kind=question_kind(a.question),
            kinds=several,
            tables=sum(len(grids(w)) for w in words),
            figures=sum(figure(i, w) is not None for i, w in zip(images, words, strict=True)),
            numbers=sum(numeric(w) for page in words for w in page),
            unit_swap=self.unit_swap,
            units=unit_of(a.question, accepted(a.answers)) is not None,
            **common,
        ), []

    def _vote(
        self, model: str, question: str, pictures: tuple[tuple[ImageRef, bytes], ...], a: Answerable
    ) -> Vote:
        asked = filled("verify.v1.md", question=with_choices(question, a.answers))
        return read_vote(self.models.ask(model, asked, pictures, a.id, VOTE_TOKENS))


def _png(image: Image) -> tuple[ImageRef, bytes]:
    data = io.BytesIO()
    image.save(data, "PNG")
    return image_ref(data.getvalue(), "memory"), data.getvalue()


def _row(begun: Begun, status: str, **made: Any) -> dict[str, Any]:
    """The line of a decision; ``made`` are those of its fields that are not empty."""
    a = begun.question
    return {
        "features": {k: v for k, v in asdict(begun.features).items() if k != "subset"},
        "ranking": [],
        "pair": a.id,
        "subset": a.subset,
        "status": status,
        "first": "",
        "transform": "",
        "source_question": a.question,
        "question": "",
        "answers": a.answers.model_dump(mode="json"),
        "source_images": [r.model_dump(mode="json") for r in begun.refs],
        "images": [],
        "params": {},
        "told": [],
        "attempts": [],
        "topic": a.topic,
        "licence": a.licence,
        **made,
    }


def _finish(
    out: Path, recipe: Mapping[str, Any], pool: Pool, decisions: list[dict[str, Any]]
) -> None:
    """Items, queue, tables of what was rejected, manifest."""
    human = queue(out, [row for row in decisions if row["status"] == "human"])
    items: list[Item] = []
    for row in decisions:
        if not row["source_images"]:
            continue
        shared = {
            "pair": row["pair"],
            "subset": row["subset"],
            "topic": row["topic"],
            "licence": row["licence"],
            "answers": AnswerSpec.model_validate(row["answers"]),
        }
        sources = tuple(ImageRef.model_validate(r) for r in row["source_images"])
        items.append(
            Item(id=row["pair"], question=row["source_question"], images=sources, **shared)
        )
        label = human.get(row["pair"], "") if row["status"] == "human" else ""
        if row["status"] == "accepted" or label == "unanswerable":
            explanation = (*row["told"], *([f"people: {label}"] if label else []))
            images = tuple(ImageRef.model_validate(r) for r in row["images"])
            items.append(
                Item(
                    id=f"{row['pair']}~{row['transform']}",
                    question=row["question"],
                    images=images,
                    transform=row["transform"],
                    params=row["params"],
                    explanation=explanation,
                    **shared,
                )
            )
    write_atomic(
        out / "items.jsonl", "".join(canonical(i.model_dump(mode="json")) + "\n" for i in items)
    )
    write_tables([rejections(decisions, human)], out)
    failed = Counter("; ".join(row["told"]) for row in decisions if row["status"] == "failed")
    write_json(
        out / "manifest.json",
        {
            "suite": "mm_aqa",
            **recipe,
            "items": len(items),
            "decisions": dict(Counter(str(row["status"]) for row in decisions)),
            "left_out": {**pool.left_out, **dict(failed.most_common(3))},
        },
    )


def rejections(decisions: list[dict[str, Any]], human: Mapping[str, str]) -> Table:
    """Attempts by category, and how many self-verification and the panel rejected (appendix F)."""
    rows = []
    attempts = [(category_of(t["transform"]), t) for row in decisions for t in row["attempts"]]
    for category in CATEGORIES:
        mine = [t for c, t in attempts if c == category]
        infeasible = sum("why" in t and "self" not in t for t in mine)
        by_self = sum("self" in t and "why" in t for t in mine)
        panel = Counter(t.get("consensus", "") for t in mine)
        judged = panel["accepted"] + panel["rejected"] + panel["human"]
        share = 100 * panel["rejected"] / judged if judged else None
        rows.append(
            (
                category,
                len(mine),
                infeasible,
                by_self,
                judged,
                panel["rejected"],
                share,
                panel["human"],
            )
        )
    gone = Counter(row["status"] for row in decisions)
    return table(
        "mm-aqa-rejections",
        "Attempts and rejections by category.",
        (
            *texts("Category"),
            "Attempts",
            "not feasible",
            "by self-verification",
            "judged by two",
            "rejected",
            "rejected (%)",
            "to people",
        ),
        rows,
        f"{gone['rejected']} of {len(decisions)} pairs have no twin, {gone['failed']} failed; {gone['human']} went to "
        f"people, who called {sum(v == 'unanswerable' for v in human.values())} unanswerable.",
    )

"""Contracts: one check for each kind of plug-in; its author's tests call the check with the plug-in.

    check_source   a folder in its native format, as samples and documents
    check_corpus   a knowledge base in any format, as documents
    check_encoder  texts and images, as vectors
    check_index    the nearest of what was indexed
    check_mode     how queries are embedded, and what they search
    check_system   a system under test (awaited)
    check_judge    verdicts on replies (awaited)
    check_model    a model (awaited)

Each check raises `AssertionError` with the contract and what came instead. The checks concern the form of the results,
not their quality.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from demur.core.errors import CallError, UsageError
from demur.core.records import (
    AnswerSpec,
    Ask,
    ImageRef,
    Message,
    Modality,
    Outcome,
    Record,
    Request,
    Response,
    Scenario,
    Shown,
    Status,
    TextPart,
    Verdict,
)
from demur.core.store import Problems, canonical, digest
from demur.core.uris import read_image

if TYPE_CHECKING:
    from demur.indexing.encoders import Encoder
    from demur.judge.base import Judge
    from demur.models.client import Model
    from demur.retrieval.modes import SimpleMode
    from demur.scenarios.systems import SystemContext, SystemLike

HOSTILE = (
    "",
    " ",
    "{",
    "[" * 5000,
    '{"label": ' * 500,
    "null",
    "1e999",
    "NaN",
    "<script>alert(1)</script>",
    "=HYPERLINK(1)",
    "\\input{x}",
    "\x00\x1b[31m\u202e",
    "yes " * 20_000,
)
"""Replies that must not cause an error."""


def _check_record(record: Record, where: str) -> None:
    assert type(record).model_validate_json(canonical(record)) == record, (
        f"{where}: it does not survive its own JSON"
    )


def _check_images(refs: Iterable[ImageRef], root: Path, where: str) -> None:
    for ref in refs:
        assert digest(read_image(ref, root)) == ref.sha256, (
            f"{where}: {ref.uri} holds other bytes than its hash says"
        )


# --- what is read --------------------------------------------------------------------------------


def check_source(source: str, folder: Path | None = None, **options: str) -> None:
    """Check a source with a valid folder.

    Reading twice gives the same records; ids are unique; every sample names its source and row, and its images, gold
    and negatives can be read; no negative is also gold; gold is in the knowledge base, if there is one.

    Args:
        source: its name, or ``module:Class``.
        folder: a small one in its native format, without errors.
        options: of the adapter, as text.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    from demur.corpora.lineage import document_of, page_of
    from demur.sources import DEFECT, open_source

    problems = Problems()
    first_reading = open_source(source, folder, problems, options)
    second_reading = open_source(source, folder, Problems(), options)
    samples, documents = list(first_reading.samples()), list(first_reading.documents())
    assert samples or documents, f"source {source}: it gives neither samples nor documents"
    assert samples == list(second_reading.samples()), (
        f"source {source}: reading twice gives other samples"
    )
    assert documents == list(second_reading.documents()), (
        f"source {source}: reading twice gives other documents"
    )
    assert not problems.lines, f"source {source}: problems in a valid folder: {problems.lines[:3]}"
    for kind, ids in (
        ("samples", [s.id for s in samples]),
        ("documents", [d.id for d in documents]),
    ):
        assert len(set(ids)) == len(ids), f"source {source}: two {kind} have one id"
    known_places = {name for d in documents for name in (d.id, d.page)}
    for sample in samples:
        where = f"source {source}, sample {sample.id}"
        assert sample.source == first_reading.name, (
            f"{where}: its source is {sample.source!r}, not {first_reading.name!r}"
        )
        assert sample.source_ref, f"{where}: source_ref does not name its row"
        assert DEFECT not in sample.attributes, f"{where}: {sample.attributes[DEFECT]}"
        gold, negatives = (
            {e.id for e in evidences} for evidences in (sample.gold, sample.negatives)
        )
        assert not gold & negatives, f"{where}: gold and negative at once: {gold & negatives}"
        for evidence in (*sample.gold, *sample.negatives):
            assert evidence.text or evidence.image, (
                f"{where}: evidence {evidence.id} holds neither text nor image"
            )
        for evidence in sample.gold if documents else ():
            places = {evidence.id, document_of(evidence), page_of(evidence)}
            assert known_places & places, f"{where}: gold {evidence.id} belongs to no document"
        _check_images(
            [*sample.images, *(e.image for e in sample.gold if e.image)], first_reading.root, where
        )
        _check_record(sample, where)
    for document in documents:
        _check_images(
            [document.image] if document.image else [],
            first_reading.root,
            f"source {source}, document {document.id}",
        )
        _check_record(document, f"source {source}, document {document.id}")


def check_corpus(text: str) -> None:
    """Check a corpus: reading twice gives the same, ids are unique, every document holds something.

    Args:
        text: ``READER:PATH?options``, as for `demur.corpora.read_corpus`; a valid one.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    from demur.corpora import read_corpus

    problems = Problems()
    documents = list(read_corpus(text, problems))
    assert documents, f"corpus {text}: no documents"
    assert documents == list(read_corpus(text, Problems())), (
        f"corpus {text}: reading twice gives other documents"
    )
    assert not problems.lines, f"corpus {text}: problems in a valid corpus: {problems.lines[:3]}"
    assert len({d.id for d in documents}) == len(documents), (
        f"corpus {text}: two documents have one id"
    )
    for document in documents:
        where = f"corpus {text}, document {document.id}"
        assert document.text or document.image, f"{where}: it holds neither text nor image"
        _check_images(
            [document.image] if document.image else [], Path("/"), where
        )  # their paths are absolute
        _check_record(document, where)


# --- what is searched ----------------------------------------------------------------------------


def check_encoder(encoder: Encoder) -> None:
    """Check that an encoder's rows have the right shape, type, length and order.

    Args:
        encoder: under test.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    import numpy as np
    from PIL import Image

    from demur.indexing.encoders import Fusing

    where = f"encoder {encoder.name}"
    assert encoder.dims, f"{where}: it serves no space"
    assert encoder.note, f"{where}: its note does not say what it is"
    assert encoder.fingerprint() == encoder.fingerprint(), (
        f"{where}: its fingerprint changes from call to call"
    )
    int(encoder.fingerprint(), 16)
    texts = ["a red fox", "", "The Danube flows through Vienna. " * 40]
    images = [
        Image.new("RGB", (40 + 9 * n, 30), colour)
        for n, colour in enumerate(("red", "blue", "#fff"))
    ]
    for space, dims in encoder.dims.items():
        for kind, items in (("texts", texts), ("images", images)):
            if space == {"texts": "look", "images": "text"}[kind]:
                continue
            ask: Any = getattr(encoder, kind)
            rows = ask(items, space)
            at = f"{where}, {kind} in {space}"
            if encoder.similarity == "maxsim":
                _check_token_vectors(rows, [ask([item], space) for item in items], dims, at)
                continue
            assert rows.shape == (len(items), dims), (
                f"{at}: {rows.shape}, expected {(len(items), dims)}"
            )
            assert rows.dtype == np.float32, f"{at}: {rows.dtype}, expected float32"
            assert np.isfinite(rows).all(), f"{at}: a NaN or an infinity"
            if encoder.similarity == "cosine":
                assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3), (
                    f"{at}: rows of length 1"
                )
            alone = np.concatenate([ask([item], space) for item in items])
            assert np.allclose(rows, alone, atol=1e-3), (
                f"{at}: a row depends on its neighbours in the batch"
            )
            assert ask([], space).shape == (0, dims), f"{at}: nothing gives no rows"
    if isinstance(encoder, Fusing) and encoder.fuses:
        shape = np.shape(encoder.together(["who is it?", "why?", "a red fox"], images))
        assert shape == (3, encoder.dims["joint"]), f"{where}: together gives {shape}"
    if encoder.similarity == "maxsim":
        return
    same: tuple[str, ...] = tuple(getattr(encoder, "same_spaces", ()))
    for space in same:
        assert space in encoder.dims, f"{where}: same_spaces names {space}, which it does not serve"
        for kind, items in (("texts", texts), ("images", images)):
            if not {space, same[0]} & {{"texts": "look", "images": "text"}[kind]}:
                ask = getattr(encoder, kind)
                assert np.allclose(ask(items, space), ask(items, same[0]), atol=1e-3), (
                    f"{where}: {kind} differ in {space} and {same[0]}, which it says are the same"
                )


def _check_token_vectors(rows: Any, alone: list[Any], dims: int, at: str) -> None:
    """Of late interaction: a matrix for each item, whatever its neighbours."""
    import numpy as np

    assert len(rows) == len(alone), f"{at}: {len(rows)} matrices for {len(alone)} items"
    for matrix, (other,) in zip(rows, alone, strict=True):
        assert matrix.ndim == 2, f"{at}: {matrix.shape}, expected (tokens, {dims})"
        assert matrix.shape[1] == dims, f"{at}: {matrix.shape}, expected (tokens, {dims})"
        assert np.isfinite(matrix).all(), f"{at}: a NaN or an infinity"
        assert matrix.shape == other.shape, f"{at}: a matrix depends on its neighbours"
        assert np.allclose(matrix, other, atol=1e-3), f"{at}: a matrix depends on its neighbours"


def check_index(index: Any, queries: Any = None) -> None:
    """Check an index: best first, a query's result does not depend on the others, missing neighbours are padding.

    Args:
        index: opened; with ``count``, ``search(queries, k)`` and ``search_subset(queries, candidates, k)``. Or the name
            of a kind of index of vectors: one is built of generated ones, and opened, as the verbs do.
        queries: at least two: (Q, d) float32, or texts for a lexical index; those of a kind are generated.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    import numpy as np

    if isinstance(index, str):
        with TemporaryDirectory() as folder:
            return check_index(*_build_kind(index, Path(folder)))
    k, where = 3, f"index {getattr(index, 'kind', type(index).__name__)}"
    result = index.search(queries, k)
    assert result.rows.shape == result.scores.shape == (len(queries), k), (
        f"{where}: rows and scores are (Q, k)"
    )
    assert result.rows.dtype == np.int64, f"{where}: rows are {result.rows.dtype}, expected int64"
    assert result.scores.dtype == np.float32, (
        f"{where}: scores are {result.scores.dtype}, expected float32"
    )
    for number, (scores, rows) in enumerate(zip(result.scores, result.rows, strict=True)):
        rows_returned = rows[rows >= 0]
        assert (np.diff(scores[: len(rows_returned)]) <= 0).all(), (
            f"{where}, query {number}: best first"
        )
        assert len(set(rows_returned.tolist())) == len(rows_returned), (
            f"{where}, query {number}: a row twice"
        )
        assert (rows_returned < index.count).all(), (
            f"{where}, query {number}: a row that does not exist"
        )
        padding_message = f"{where}, query {number}: missing neighbours have row -1 and score -inf"
        assert (rows[len(rows_returned) :] == -1).all(), padding_message
        assert np.isneginf(scores[len(rows_returned) :]).all(), padding_message
        alone_result = index.search(queries[number : number + 1], k)
        assert alone_result.rows[0].tolist() == rows.tolist(), (
            f"{where}, query {number}: alone it finds other rows"
        )
    beyond_all = index.search(queries, index.count + 2)
    assert (beyond_all.rows[:, -2:] == -1).all(), f"{where}: more neighbours than there are"
    candidates = [np.arange(0, index.count, 2, dtype=np.int64) for _ in range(len(queries))]
    subset_rows = index.search_subset(queries, candidates, k).rows
    assert not (subset_rows % 2 == 1)[subset_rows >= 0].any(), (
        f"{where}: search_subset finds rows that are no candidates"
    )
    try:
        index.search(queries, 0)
    except UsageError:
        return
    raise AssertionError(f"{where}: k = 0 must be a UsageError")


def _build_kind(kind: str, folder: Path) -> tuple[Any, Any]:
    """An index of a kind over 600 generated vectors, opened, and five queries."""
    import numpy as np

    from demur.indexing.exact import unit
    from demur.indexing.indexes import kind_named

    vectors = unit(np.random.default_rng(0).standard_normal((600, 32)).astype(np.float32))
    np.save(folder / "vectors.npy", vectors)
    entry = {"kind": kind, "dims": 32, "count": len(vectors), "largest_norm": 1.0001}
    index = kind_named(kind)
    made = index.build(kind, np.load(folder / "vectors.npy", mmap_mode="r"), folder)
    assert canonical(made), f"index {kind}: build returns what a manifest can hold"
    return index(folder, entry | made), vectors[:5] + np.float32(0.01)


def check_mode(mode: str | SimpleMode, encoder: Encoder) -> None:
    """Check a retrieval mode: what it searches exists, and its vectors fit the encoder's.

    Args:
        mode: its name, or itself.
        encoder: opened; one that can be searched with in this mode.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    import numpy as np
    from PIL import Image

    from demur.indexing.encoders import Fusing, stored_names
    from demur.indexing.parts import DENSE_PARTS
    from demur.retrieval.modes import Query, mode_named

    checked = mode_named(mode) if isinstance(mode, str) else mode
    where = f"mode {mode if isinstance(mode, str) else checked.key}"
    parts = {part.name: part for part in DENSE_PARTS}
    assert checked.part in parts, f"{where}: there is no dense part {checked.part!r}"
    found = "pages" if parts[checked.part].over == "pages" else "documents"
    assert checked.finds == found, f"{where}: part {checked.part} holds {found}"
    assert checked.by in ("text", "image", "both"), f"{where}: by {checked.by!r}"
    if checked.embed is None:
        fuses = isinstance(encoder, Fusing) and encoder.fuses
        assert checked.by != "both" or fuses, f"{where}: {encoder.name} embeds one alone"
        return
    named = getattr(checked.embed, "__name__", "<lambda>") != "<lambda>"
    assert named, f"{where}: embed has no name, by which the vectors of a query are kept"
    space = stored_names({s: encoder for s in encoder.dims})[parts[checked.part].space]
    words = ("a red fox", "the Danube", "who?")
    queries = [
        Query(text, Image.new("RGB", (40 + 9 * n, 30), "red")) for n, text in enumerate(words)
    ]
    rows = np.asarray(checked.embed(encoder, queries, space))
    assert rows.shape == (3, encoder.dims[space]), f"{where}: {rows.shape}"
    assert np.isfinite(rows).all(), f"{where}: a NaN or an infinity"
    alone = np.concatenate([checked.embed(encoder, [query], space) for query in queries])
    assert np.allclose(rows, alone, atol=1e-3), f"{where}: a row depends on its neighbours"


# --- what answers and grades ---------------------------------------------------------------------


def asks() -> list[Ask]:
    """Four asks like those of a run: without evidence, with evidence, with choices, and hostile."""
    river = Shown(
        id="d1", modality=Modality.TEXT, title="Danube", text="The Danube flows through Vienna."
    )
    return [
        Ask(
            id="a1",
            sample="s1",
            context="c1",
            scenario=Scenario.PARAMETRIC,
            question="Which river is it?",
        ),
        Ask(
            id="a2",
            sample="s1",
            context="c2",
            scenario=Scenario.ORACLE,
            question="Which river flows through Vienna?",
            evidence=(river,),
            recipe="oracle",
        ),
        Ask(
            id="a3",
            sample="s2",
            context="c3",
            scenario=Scenario.PARAMETRIC,
            question="Which is a colour?",
            choices=(("A", "seven"), ("B", "red")),
        ),
        Ask(
            id="a4",
            sample="s3",
            context="c4",
            scenario=Scenario.PARAMETRIC,
            question="\x00{$}<b>" * 300,
        ),
    ]


async def check_system(system: SystemLike, context: SystemContext | None = None) -> None:
    """Check that a system answers as the runner expects.

    It has an id and a note; says for any ask whether it takes it; returns a `Response` for each, several at a time, and
    ``Response(error=...)`` for a failed item; can be closed twice.

    Args:
        system: a name, a function, or an object that answers.
        context: for the system; an empty one by default.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    from demur.scenarios.systems import SystemContext, open_system

    opened = open_system(system, context or SystemContext(read_image=lambda ref: b""))
    where = f"system {opened.id!r}"
    assert opened.id, f"{where}: it has no id"
    assert isinstance(opened.note, str), f"{where}: its note is not text (it may be empty)"
    assert isinstance(opened.revision, str), f"{where}: its revision is not text"
    try:
        able = [ask for ask in asks() if not opened.skip_reason(ask)]
        replies = await asyncio.gather(*(opened.answer(ask) for ask in able))
    finally:
        await opened.close()
    await opened.close()
    for ask, reply in zip(able, replies, strict=True):
        assert isinstance(reply, Response), (
            f"{where}, ask {ask.id}: {type(reply).__name__} instead of a Response"
        )
        if reply.confidence is not None:
            assert 0 <= reply.confidence <= 1, (
                f"{where}, ask {ask.id}: confidence {reply.confidence} not in [0, 1]"
            )
        _check_record(reply, f"{where}, ask {ask.id}")


async def check_judge(judge: Judge) -> None:
    """Check that a judge gives a verdict on any response.

    Every verdict has the ask's id and the judge's; a failed response is ``failed``, and an empty one is never correct;
    the answer itself is never incorrect, and the same reply gets the same verdict again.

    Args:
        judge: under test.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    assert judge.id, "the judge has no id"
    ask, answers = asks()[1], AnswerSpec(accepted=(("Danube",),))

    async def grade(response: Response) -> Verdict:
        verdict = judge.grade(ask, response, answers)
        awaited = await verdict if inspect.isawaitable(verdict) else verdict
        where = f"judge {judge.id!r}, reply {response.text[:20]!r}"
        assert isinstance(awaited, Verdict), (
            f"{where}: {type(awaited).__name__} instead of a Verdict"
        )
        assert awaited.id == ask.id, f"{where}: the verdict is of {awaited.id!r}, not of the ask"
        assert awaited.judge, f"{where}: the verdict does not name the judge"
        _check_record(awaited, where)
        return awaited

    for text in HOSTILE:
        assert (await grade(Response(text=text))).outcome is not Outcome.CORRECT, (
            f"judge {judge.id!r}: {text[:20]!r} is correct"
        )
    failed_verdict = await grade(Response(error="the server was down"))
    assert failed_verdict.status is Status.FAILED, (
        f"judge {judge.id!r}: a response that failed is {failed_verdict.status}"
    )
    right_verdict = await grade(Response(text="Danube"))
    assert right_verdict.outcome is not Outcome.INCORRECT, (
        f"judge {judge.id!r}: the answer itself is incorrect"
    )
    assert (await grade(Response(text="Danube"))).outcome == right_verdict.outcome, (
        f"judge {judge.id!r}: another verdict on the same"
    )


async def check_model(model: Model) -> None:
    """Check that a model keeps the contract of `demur.models.Model`.

    It has an id without an address; each reply is a `Response` with text or reasoning and without ``error``; concurrent
    calls each get their own reply; a failure is a `CallError`.

    Args:
        model: under test.

    Raises:
        AssertionError: the contract is broken; says where.
    """
    assert isinstance(model.id, str), "the model has no id"
    assert model.id, "the model's id is empty"
    assert "://" not in model.id, (
        f"the model's id {model.id!r} contains an address, which would change the cache key"
    )
    requests = [
        Request(
            model=model.id,
            messages=(Message(role="user", parts=(TextPart(text=text),)),),
            temperature=0.0,
            max_tokens=16,
            item=text,
        )
        for text in ("Say yes.", "Say no.", "Say nothing else than blue.")
    ]

    async def reply_or_error(request: Request) -> Response | CallError:
        try:
            return await model.complete(request)
        except CallError as error:
            return error

    replies = await asyncio.gather(*(reply_or_error(r) for r in requests))
    for request, reply in zip(requests, replies, strict=True):
        if isinstance(reply, CallError):
            assert str(reply), f"the error of {request.item!r} has no message"
            continue
        assert isinstance(reply, Response), (
            f"{request.item!r}: expected a Response, got {type(reply).__name__}"
        )
        assert not reply.error, (
            f"{request.item!r}: it must raise its error, not return it: {reply.error}"
        )
        assert reply.text.strip() or reply.reasoning.strip(), (
            f"{request.item!r}: the reply is empty"
        )
        _check_record(reply, repr(request.item))
    assert any(isinstance(r, Response) for r in replies), f"no request was answered: {replies[0]}"

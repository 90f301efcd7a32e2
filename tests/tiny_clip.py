"""A tiny EVA02-style model (SwiGLU, rotary positions, 32 pixels) from a seed: the real code without real weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG = {
    "embed_dim": 48,
    "vision_cfg": {
        "image_size": 32,
        "timm_model_name": "demur_test_eva02",
        "timm_model_pretrained": False,
        "timm_pool": "token",
        "timm_proj": None,
    },
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
    "custom_text": True,
}
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def demur_test_eva02(pretrained: bool = False, **kwargs: Any) -> Any:
    """A timm entry: EVA02's blocks at 48 dimensions, two layers, 16 patches of 8 pixels."""
    from timm.models.eva import Eva

    for key in ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"):
        kwargs.pop(key, None)
    return Eva(
        img_size=32,
        patch_size=8,
        embed_dim=48,
        depth=2,
        num_heads=3,
        mlp_ratio=4 * 2 / 3,
        swiglu_mlp=True,
        use_rot_pos_emb=True,
        ref_feat_shape=(4, 4),
        **kwargs,
    )


def make(folder: Path, seed: int = 0) -> Path:
    """Register ``tiny-eva02`` with open_clip and write its weights in three forms into ``folder``."""
    from demur.core.vision_ops import ensure_torchvision

    ensure_torchvision()
    import open_clip
    import torch
    from safetensors.torch import save_file
    from timm.models import is_model, register_model

    if not is_model("demur_test_eva02"):
        register_model(demur_test_eva02)
    config = folder / "tiny-eva02.json"
    config.write_text(json.dumps(CONFIG))
    open_clip.add_model_config(config)
    torch.manual_seed(seed)
    model = open_clip.create_model("tiny-eva02")
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    torch.save(state, folder / "weights.pt")
    save_file(state, folder / "weights.safetensors")
    whole = folder / "whole"
    whole.mkdir()
    (whole / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": CONFIG, "preprocess_cfg": {"mean": MEAN, "std": STD}})
    )
    save_file(state, whole / "open_clip_model.safetensors")
    return folder

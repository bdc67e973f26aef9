"""Vision Transformers of timm: what is refused by its name, and the names of classes."""

from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.interop.vit.timm import read_timm
from tests.unit.data.refusal import refusal
from tests.unit.interop.vit.models import change, timm_folder

CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "rotary": (
        {"architecture": "vit_base_patch16_rope_ape_224"},
        "architecture is 'vit_base_patch16_rope_ape_224'",
    ),
    "another": ({"architecture": "resnet50"}, "allowed: vit_tiny, vit_small"),
    "pool": ({"global_pool": "avg"}, "global_pool is 'avg'; only token"),
    "channels": ({"model_args": {"in_chans": 1}}, "in_chans is 1; only 3"),
    "argument": ({"model_args": {"pre_norm": True}}, "'pre_norm' of model_args is not supported"),
    "heads": ({"model_args": {"num_heads": 3}}, "width 8 is not a multiple of 3 heads"),
    "labels": ({"label_names": ["a"]}, "label_names has other classes"),
}
IMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "size": ({"input_size": [3, 12, 12]}, "pos_embed"),
    "border": ({"crop_mode": "border"}, "crop_mode is 'border'; allowed: center, squash"),
    "filter": ({"interpolation": "lanczos"}, "interpolation is 'lanczos'"),
    "fraction": ({"crop_pct": 1.2}, "crop_pct is 1.2"),
}


@pytest.mark.parametrize(("config", "message"), CONFIGS.values(), ids=list(CONFIGS))
def test_unsupported_settings_are_refused(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    assert message in refusal(read_timm, timm_folder(tmp_path / "a", config=config))


@pytest.mark.parametrize(("images", "message"), IMAGES.values(), ids=list(IMAGES))
def test_unsupported_preprocessing_is_refused(tmp_path: Path, images: dict[str, Any], message: str) -> None:
    assert message in refusal(read_timm, timm_folder(tmp_path / "a", **images))


@pytest.mark.parametrize(
    "name", ["fc_norm__weight", "blocks__0__ls1__gamma", "norm_pre__weight", "reg_token"]
)
def test_tensors_of_other_architectures_are_refused(tmp_path: Path, name: str) -> None:
    source = timm_folder(tmp_path / "a")
    change(source, **{name: torch.ones(8)})
    assert "is not part of a supported Vision Transformer of timm" in refusal(read_timm, source)


def test_classes(tmp_path: Path) -> None:
    assert read_timm(timm_folder(tmp_path / "a")).classes == ("0", "1", "2")
    named = timm_folder(tmp_path / "b", config={"label_names": ["x", "y", "z"]}, crop_mode="squash")
    assert read_timm(named).classes == ("x", "y", "z")
    assert read_timm(named).recipe.data.crop == "squash"
    change(named, head__weight=None, head__bias=None)
    assert read_timm(named).classes == ()

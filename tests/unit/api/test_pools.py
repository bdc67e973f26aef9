"""Pools of several cells reach the features of a model, scikit-learn, and fine-tuning."""

from pathlib import Path

import pytest
import torch
from einops import rearrange

import isopix
from isopix.model.pool import Pool
from tests.finetuned import load_finetuned


@pytest.mark.parametrize(("pool", "cells"), [("mean", 1), ("grid2", 4), ("grid4", 16), ("flatten", 64)])
def test_a_pool_of_cells_has_so_many_features(pristine: Path, pool: Pool, cells: int) -> None:
    model = isopix.load(pristine / "ar", device="cpu", pool=pool)
    images = torch.randint(256, (3, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    width = model.loaded.recipe.model.width
    with torch.no_grad():
        assert model(images).shape == (3, model.num_features) == (3, cells * width)
    features = isopix.Features(model, pool=pool).fit(rearrange(images, "b c h w -> b h w c").numpy())
    assert len(features.get_feature_names_out()) == cells * width
    assert features.transform(rearrange(images, "b c h w -> b h w c").numpy()).shape == (3, cells * width)


def test_fine_tuning_on_cells_is_saved_loaded_and_evaluated(pristine: Path, tmp_path: Path) -> None:
    words = [
        "steps=4",
        "patience=null",
        "evaluate_every=2",
        "batch_size=8",
        "num_test_images=16",
        "evaluate_images=16",
    ]
    out = tmp_path / "tuned"
    isopix.finetune(pristine / "ar", *words, "pool=grid4", out=out, limit=40, device="cpu")
    tuned = load_finetuned(out, device=torch.device("cpu"))
    assert tuned.model.settings.pool == "grid4"
    assert tuned.model.head.weight.shape == (10, 16 * tuned.loaded.recipe.model.width)
    assert tuned.model.head.weight.any()
    assert 0 <= isopix.evaluate(out, device="cpu").metrics.accuracy <= 1

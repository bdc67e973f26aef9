"""Exported programs: ONNX and torch.export give what the model gives, for any number of images."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import isopix
from isopix.interop import program
from isopix.recipes.recipe import Recipe
from tests.laws import cases
from tests.tiny_runs import CPU, Copy, copy_of, pristine, unchecked
from tests.unit.data.refusal import refusal
from tests.unit.pretrained.cases import CAUSAL, model

__all__ = ["copy_of", "pristine", "unchecked"]

pytestmark = pytest.mark.usefixtures("unchecked")


def families() -> Iterator[Recipe]:
    """Cases with every kind of codec, stem, block and position embedding, with and without a class token."""
    seen: set[tuple[str, object]] = set()
    for case in cases.recipes():
        parts = {(name, getattr(case.model, name).kind) for name in ("codec", "stem", "block", "positions")}
        parts.add(("class token", case.model.class_token))
        if parts - seen:
            seen |= parts
            yield case


@pytest.mark.integration
@pytest.mark.parametrize("recipe", [pytest.param(each, id=cases.title(each)) for each in families()])
def test_a_graph_gives_the_features_of_the_model(recipe: Recipe, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    own, path = model(recipe), tmp_path / "features.onnx"
    isopix.export(own, path, format="onnx", layer=1)
    for count in (1, 5):
        images = cases.images(recipe, count)
        found = runtime.InferenceSession(str(path)).run(None, {"images": images.numpy()})[0]
        expected = own.features(images, 1).numpy()
        assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def test_a_program_of_a_fine_tuned_run_gives_its_logits(copy_of: Copy, tmp_path: Path) -> None:
    words = ["steps=4", "patience=null", "lr=0.03", "evaluate_every=2", "batch_size=8"]
    tuned = isopix.finetune(copy_of("bert", "run"), *words, out=tmp_path / "tuned", limit=40, **CPU)
    result = isopix.export(tuned, tmp_path / "tuned.pt2", format="torch")
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 3, 8, 8), np.uint8))
    found = torch.export.load(tmp_path / "tuned.pt2").module()(images)
    expected = isopix.load(tuned.path, **CPU).class_logits(images).detach()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert result.classes == tuple("0123456789")
    assert expected.std(0).max() > 1e-4  # they depend on the images


def test_a_program_that_differs_from_the_model_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shifted(program.Program):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return super().forward(images) + 0.01

    monkeypatch.setattr(program, "Program", Shifted)
    export = partial(isopix.export, format="torch")
    line = refusal(export, model(CAUSAL), tmp_path / "program.pt2", kind=RuntimeError)
    assert "differs from the model by up to 0.01" in line
    assert [*tmp_path.iterdir()] == []

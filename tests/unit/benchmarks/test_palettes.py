"""Palettes: codes of the least error, and a fit as good as the peer's; worse ones are noticed."""

import pytest
import torch

from isopix.benchmarks import palettes
from isopix.benchmarks.benchmark import OWN
from isopix.benchmarks.numerics import NumericsError
from isopix.benchmarks.palettes import PaletteSize
from tests.unit.benchmarks.tiny import WATCH, measured

SIZE = PaletteSize(images=2, side=8, colors=16)


@pytest.mark.parametrize("measure", [palettes.measure_encoding, palettes.measure_dataset_encoding])
def test_encoding_is_measured_and_other_codes_are_an_error(
    measure: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="the peer is in isopix[bench]")
    assert callable(measure)
    assert "color_quantize" in list(measure(SIZE, WATCH).times.values())[1]
    right = palettes.encode_batches
    monkeypatch.setattr(palettes, "encode_batches", lambda *given: right(*given).roll(1, 1))
    with pytest.raises(NumericsError, match="squared error of palette codes"):
        measure(SIZE, WATCH)


def test_a_fit_is_measured_and_a_worse_one_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert next(iter(measured("palette.fit").times)) == OWN
    right = palettes.kmeans.fit_palette

    def darker(*given: object) -> object:
        fit = right(*given)
        return type(fit)(fit.colors / 2, fit.iterations, fit.error)

    monkeypatch.setattr(palettes.kmeans, "fit_palette", darker)
    with pytest.raises(NumericsError, match="the error of our palette"):
        measured("palette.fit")


def test_the_error_of_a_palette_is_that_of_the_nearest_colors() -> None:
    images = torch.tensor([0, 10, 250, 255], dtype=torch.uint8).view(1, 1, 2, 2).expand(1, 3, 2, 2)
    colors = torch.tensor([[0.0] * 3, [255.0] * 3])
    assert palettes.color_rmse(colors, images.contiguous()) == pytest.approx(((100 + 25) / 4) ** 0.5)

"""Images in memory are a dataset: the same pixels, labels and order in every form, and a run resumes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, TensorDataset

import isopix
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.data.sources.memory import store_images
from tests.tiny_runs import CPU, TINY
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import png

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 8, 9, 3), dtype=np.uint8)
LABELS = np.arange(20) % 3


class Pairs(Dataset):  # type: ignore[type-arg]
    """A dataset of PIL images with names of classes, which raises no IndexError at its end."""

    def __len__(self) -> int:
        return len(PIXELS)

    def __getitem__(self, i: int) -> tuple[Image.Image, str]:
        return Image.fromarray(PIXELS[i % 20]), f"class {LABELS[i % 20]}"


def files(folder: Path) -> list[Path]:
    for i, pixels in enumerate(PIXELS):
        Image.fromarray(pixels).save(folder / f"{i:02d}.png")
    return sorted(folder.glob("*.png"))


FORMS: dict[str, tuple[Callable[[Path], Any], bool]] = {
    "array": (lambda folder: PIXELS, False),
    "tensor": (lambda folder: torch.from_numpy(PIXELS).movedim(-1, 1), False),
    "bytes": (lambda folder: [png(each) for each in PIXELS], False),
    "files": (lambda folder: [str(each) for each in files(folder)], False),
    "pairs": (lambda folder: list(zip(PIXELS, LABELS, strict=True)), True),
    "TensorDataset": (lambda folder: TensorDataset(torch.tensor(PIXELS), torch.tensor(LABELS)), True),
    "Dataset": (lambda folder: Pairs(), True),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_pixels_and_labels(form: str, tmp_path: Path) -> None:
    given, labeled = FORMS[form][0](tmp_path), FORMS[form][1]
    path = store_images(given)
    config = DataConfig(source=str(path), rows=8, cols=9, crop="squash", holdout=0.0)
    found = load_dataset(config, cache=tmp_path / "cache")
    assert np.array_equal(found.train.images[:].movedim(1, -1).numpy(), PIXELS)
    assert (found.train.labels is not None) == labeled
    if labeled:
        assert [name[-1] for name in found.labels_of(found.train)] == [str(each) for each in LABELS]
    again = store_images(FORMS[form][0](tmp_path))
    changed = store_images([1 - PIXELS[0], *PIXELS[1:]])
    assert again == path != changed


def test_verbs_take_them_and_a_run_on_them_resumes(tmp_path: Path) -> None:
    paths, out = files(tmp_path), tmp_path / "table.npz"
    run = isopix.pretrain("igpt.digits", *TINY, data=PIXELS, out=tmp_path / "run", **CPU)
    assert isopix.resume(run.path, **CPU).finished
    isopix.features(run.path, data=paths[::-1], out=out, **CPU)
    with np.load(out) as arrays:
        assert arrays["file"].tolist() == [str(each) for each in paths[::-1]]
        expected = isopix.load(run.path, **CPU).features(paths[::-1]).numpy()
        np.testing.assert_allclose(arrays["features"], expected, rtol=1e-5, atol=1e-6)
        transformer = isopix.Features(run.path, **CPU)
        np.testing.assert_allclose(transformer.fit_transform([*map(str, paths[::-1])]), expected, atol=1e-5)


def test_what_are_no_images_is_refused_in_one_line(tmp_path: Path) -> None:
    for given, part in [(PIXELS / 255, "multiply floats"), (3, "got 3"), ({}, "got {}"), ([], "got 0")]:
        assert part in refusal(lambda given=given: isopix.data_show(given))

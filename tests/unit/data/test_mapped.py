"""Images of large mapped files are those of a tensor, and a selection of them copies none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import isopix
from isopix.core.images import StoredImages, concat_images, select_images
from isopix.core.random import generator
from isopix.data import mapped
from isopix.data.dataset import load_dataset
from isopix.data.mapped import MappedPixels, open_images
from isopix.data.splits import Split
from isopix.recipes import registry

INDICES = [
    slice(None),
    slice(2, 7, 3),
    slice(4, 4),
    torch.tensor([8, 0, 8]),
    torch.tensor([-1]),
    torch.tensor([]).long(),
]


def _pixels(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, 4, 5), generator=generator(count, "pixels"), dtype=torch.uint8)


def _open(path: Path, pixels: torch.Tensor) -> MappedPixels:
    np.save(path, pixels.numpy())
    images = open_images(path)
    assert isinstance(images, MappedPixels)
    return images


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "COPIED_BYTES", 0)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_selecting_and_joining_are_those_of_tensors(
    tmp_path: Path, index: slice | torch.Tensor
) -> None:
    first, second = _pixels(9), _pixels(12)
    one, other = _open(tmp_path / "a.npy", first), _open(tmp_path / "b.npy", second)
    assert torch.equal(one[index], first[index])
    assert (len(one), one.shape, one.device) == (9, first.shape, first.device)
    assert isinstance(one, StoredImages)
    order = torch.tensor([20, 3, 11, 0, 8, 9, 15, 1, 19])
    both = select_images(concat_images(select_images(one, torch.arange(9)), other), order)
    assert isinstance(both, MappedPixels)
    assert torch.equal(both[index], torch.cat([first, second])[order][index])


def test_a_selection_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = _open(tmp_path / "a.npy", _pixels(9))
    with monkeypatch.context() as patch:
        patch.setattr(MappedPixels, "__getitem__", lambda images, index: pytest.fail("it reads"))
        split = Split(images, torch.arange(9)).select(torch.tensor([4, 2, 7])).sample(2)
    assert split.is_decoded
    assert len(split.to(torch.device("cpu")).images) == 2
    assert isinstance(split.to(torch.device("cpu")).images, MappedPixels)


def test_small_files_are_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", _pixels(9).numpy())
    monkeypatch.setattr(mapped, "COPIED_BYTES", 9 * 60)
    assert isinstance(open_images(tmp_path / "a.npy"), torch.Tensor)


def test_splits_and_weights_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, found = ["steps=3", "depth=1", "width=16", "batch_size=8", "data.store=pixels"], []
    data = replace(registry.find("igpt.digits").data, store="pixels")
    for limit, name in ((0, "mapped"), (2**30, "tensor")):
        monkeypatch.setattr(mapped, "COPIED_BYTES", limit)
        loaded = load_dataset(data)
        run = isopix.pretrain("igpt.digits", *words, out=tmp_path / name, device="cpu")
        [weights] = run.path.glob("checkpoints/step-00000003/model.safetensors")
        found.append((loaded, load_file(weights)))
    (ours, own), (theirs, other) = found
    assert isinstance(ours.train.images, MappedPixels)
    for split in ("train", "validation", "test"):
        assert torch.equal(getattr(ours, split).images[:], getattr(theirs, split).images[:])
    assert ours.fingerprint == theirs.fingerprint
    assert all(torch.equal(own[name], other[name]) for name in other)

"""Batches with crop and flip: images that are no crops of theirs are noticed, on either side."""

import pytest
import torch

from isopix.benchmarks import batches, networks
from isopix.benchmarks.batches import BATCH, CropAndFlip, padded, require_crops
from isopix.benchmarks.benchmark import OWN
from isopix.benchmarks.numerics import NumericsError
from isopix.data.augment import PadCropFlip
from isopix.data.batches import Batches
from isopix.data.splits import Split
from tests.unit.benchmarks.tiny import measured


def test_both_sides_are_measured() -> None:
    own, peer = measured("batches.crop-and-flip").times.items()
    assert own[0] == OWN
    assert peer[0] == f"torch {torch.__version__} DataLoader"
    assert set(peer[1]) == {"0 workers"}


def test_images_that_are_no_crops_are_an_error() -> None:
    images = networks.synthetic_photos(BATCH, 8)
    stream = Batches(Split(images, None), batch_size=BATCH, augment=PadCropFlip(pad=batches.PAD))
    assert require_crops(images, stream) == f"{2 * BATCH} images are crops of theirs"
    wider = Batches(Split(images, None), batch_size=BATCH, augment=PadCropFlip(pad=6))
    for wrong in (images.roll(1, 0), images.flip(2)):
        with pytest.raises(NumericsError, match="is no crop of image"):
            require_crops(wrong, stream)
    with pytest.raises(NumericsError, match="is no crop of image"):
        require_crops(images, wider)


def test_the_peer_crops_and_flips_with_reflected_borders() -> None:
    [image] = networks.synthetic_photos(1, 8)
    around = padded(image)
    assert around.shape == (3, 16, 16)
    assert torch.equal(around[:, 4:12, 4:12], image)
    assert torch.equal(around[:, 4:12, 3], image[:, :, 1])
    dataset = CropAndFlip(image[None])
    assert len(dataset) == 1
    crops = {tuple(dataset[0].flatten().tolist()) for _ in range(100)}
    candidates = [around[:, top : top + 8, left : left + 8] for top in range(9) for left in range(9)]
    known = {tuple(each.flatten().tolist()) for crop in candidates for each in (crop, crop.flip(2))}
    assert crops <= known
    assert len(crops) > 30

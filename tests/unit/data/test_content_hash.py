"""The content hash is of all pixels and labels, and of nothing else."""

import hashlib
from dataclasses import replace

import torch

from isopix.data.augment import PadCropFlip
from isopix.data.content_hash import content_hash
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.data.splits import Split

DIGITS = DataConfig(source="digits", rows=8, cols=8, limit=20)


def changed(data: ImageDataset, **fields: torch.Tensor) -> ImageDataset:
    return replace(data, test=replace(data.test, **fields))


def test_training_settings_do_not_matter() -> None:
    assert content_hash(load_dataset(DIGITS)) == content_hash(
        load_dataset(replace(DIGITS, augment=PadCropFlip()))
    )


def test_images_labels_and_limit_matter() -> None:
    data = load_dataset(DIGITS)
    assert data.test.labels is not None
    others = [
        load_dataset(replace(DIGITS, limit=19)),
        changed(data, images=data.test.images.flip(0)),
        changed(data, labels=data.test.labels.flip(0)),
        changed(data, labels=None),
    ]
    assert len({content_hash(each) for each in [data, *others]}) == 5


def test_it_is_the_hash_of_whole_tensors_in_batches() -> None:
    """So that features that were cached before images were hashed in batches are found."""
    images = torch.arange(2500 * 3).reshape(2500, 3, 1, 1).to(torch.uint8)
    labels = torch.arange(2500)
    split, none = Split(images, labels), Split(images[:0])
    data = ImageDataset("all", ("a",), split, none, split, "fingerprint")
    expected = hashlib.blake2b(digest_size=16)
    for each in (images, labels, images[:0], None, images, labels):
        expected.update(str(None if each is None else tuple(each.shape)).encode())
        expected.update(b"" if each is None else each.numpy().tobytes())
    assert content_hash(data) == expected.hexdigest()

"""The hash of the images that probes and evaluations record."""

from dataclasses import replace

import torch

from isopix.data.augment import PadCropFlip
from isopix.data.dataset import DataConfig, ImageDataset, content_hash, load_dataset

DIGITS = DataConfig(source="digits", rows=8, cols=8, limit=20)


def changed(data: ImageDataset, **fields: torch.Tensor) -> ImageDataset:
    return replace(data, test=replace(data.test, **fields))


def test_equal_images_have_the_same_digest_whatever_the_augmentation() -> None:
    assert content_hash(load_dataset(DIGITS)) == content_hash(
        load_dataset(replace(DIGITS, augment=PadCropFlip()))
    )


def test_another_image_label_or_limit_changes_the_content_hash() -> None:
    data = load_dataset(DIGITS)
    assert data.test.labels is not None
    others = [
        load_dataset(replace(DIGITS, limit=19)),
        changed(data, images=data.test.images.flip(0)),
        changed(data, labels=data.test.labels.flip(0)),
        changed(data, labels=None),
    ]
    assert len({content_hash(each) for each in [data, *others]}) == 5

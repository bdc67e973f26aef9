"""The content hash is of all pixels and labels, and of nothing else."""

from dataclasses import replace

import torch

from isopix.data.augment import PadCropFlip
from isopix.data.content_hash import content_hash
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset

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

"""Batches are a function of (seed, step), and show every image once per epoch."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isopix.data.augment import PadCropFlip
from isopix.data.batches import Batches
from isopix.data.splits import Split
from tests.unit.data.refusal import refusal


def _split(count: int) -> Split:
    images = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(count, 3, 8, 8)
    return Split(images, torch.arange(count))


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_every_image_is_seen_once_per_epoch(count: int, size: int, seed: int) -> None:
    batches = Batches(_split(count), batch_size=size, seed=seed)
    steps = 3 * batches.steps_per_epoch
    seen = torch.cat([batches.indices(step) for step in range(steps)])
    for epoch in range(len(seen) // count):
        assert seen[epoch * count : (epoch + 1) * count].sort().values.tolist() == list(range(count))


def test_a_step_does_not_depend_on_the_steps_before_it() -> None:
    in_order, backwards = Batches(_split(10), batch_size=4, seed=1), Batches(_split(10), batch_size=4, seed=1)
    forth = [in_order.indices(step).tolist() for step in range(8)]
    back = [backwards.indices(step).tolist() for step in reversed(range(8))]
    assert forth == back[::-1]


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [
        Batches(_split(30), batch_size=30, seed=seed).indices(step).tolist()
        for seed, step in ((1, 0), (1, 1), (2, 0))
    ]
    assert len({tuple(order) for order in orders}) == 3


def test_labels_stay_with_their_images() -> None:
    images, labels = Batches(_split(10), batch_size=7).batch(1)
    assert labels is not None
    assert images[:, 0, 0, 0].tolist() == labels.tolist()


def test_unlabeled_images_have_no_labels() -> None:
    assert Batches(Split(_split(10).images), batch_size=7).batch(0)[1] is None


def test_an_epoch_is_counted_in_whole_steps() -> None:
    split = Split(torch.zeros(1, 3, 1, 1, dtype=torch.uint8).expand(45_000, 3, 1, 1))
    assert Batches(split, batch_size=128).steps_per_epoch == 352  # iGPT's warm-up on CIFAR


def test_augmented_batches_are_a_function_of_the_step() -> None:
    split = Split(torch.randint(0, 256, (10, 3, 8, 8), dtype=torch.uint8))
    batches = Batches(split, batch_size=10, augment=PadCropFlip())
    later, sooner = batches.batch(3)[0], batches.batch(0)[0]
    assert torch.equal(batches.batch(3)[0], later)
    assert not torch.equal(sooner, split.images[batches.indices(0)])


def test_no_images_are_rejected() -> None:
    assert refusal(lambda: Batches(_split(0), batch_size=4)) == "the training split has no images"


def test_an_impossible_batch_size_is_rejected() -> None:
    assert refusal(lambda: Batches(_split(4), batch_size=0)) == "batch size is 0; allowed: 1 or more"

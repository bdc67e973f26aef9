"""Which images are held out."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isopix.data.splits import Split, held_out_indices
from tests.unit.data.shards import noise, whole


def hashes(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(2**62, (count,), generator=torch.Generator().manual_seed(seed))


IMAGES = hashes(10_000)


def test_every_image_is_in_one_set_and_sets_have_about_their_share() -> None:
    kept, validation, test = held_out_indices(IMAGES, (0.1, 0.2), seed=3)
    assert len(validation) == pytest.approx(1000, abs=4 * 30)  # standard deviation of a binomial: 30
    assert len(test) == pytest.approx(2000, abs=4 * 40)
    assert all(bool((part.diff() > 0).all()) for part in (kept, validation, test))
    exact = held_out_indices(IMAGES, (0.1, 0.1), seed=2, exact=True)
    assert [len(part) for part in exact] == [8000, 1000, 1000]


@pytest.mark.parametrize(("count", "fraction", "held_out"), [(50_000, 0.1, 5_000), (1_281_167, 0.04, 51_247)])
def test_sizes_of_published_datasets_are_those_of_the_paper(
    count: int, fraction: float, held_out: int
) -> None:
    kept, validation = held_out_indices(hashes(count), (fraction,), seed=0, exact=True)
    assert (len(kept), len(validation)) == (count - held_out, held_out)


def test_images_added_later_move_no_other() -> None:
    before = held_out_indices(IMAGES[:6000], (0.1, 0.1), seed=3)
    after = held_out_indices(IMAGES, (0.1, 0.1), seed=3)
    assert all(torch.equal(one, other[other < 6000]) for one, other in zip(before, after, strict=True))


def test_neither_order_nor_copies_matter() -> None:
    parts = held_out_indices(torch.cat([IMAGES, IMAGES.flip(0)]), (0.2, 0.2), seed=5)
    assert all(torch.equal(part.flip(0), 19_999 - part) for part in parts)
    alone = held_out_indices(IMAGES, (0.2, 0.2), seed=5)
    assert all(torch.equal(part[part < 10_000], one) for part, one in zip(parts, alone, strict=True))


def test_no_trained_image_is_tested_after_a_folder_has_grown_from_a_few_images() -> None:
    for seed in range(200):
        few = hashes(14, seed)
        for count in range(4, 14):
            trained = set(held_out_indices(few[:count], (0.1, 0.1), seed)[0].tolist())
            _, _, test = held_out_indices(few[: count + 1], (0.1, 0.1), seed)
            assert not trained & set(test.tolist()), (seed, count)


FRACTIONS = st.sampled_from([0.0, 0.01, 0.1, 0.3])


@given(st.integers(40, 60), st.integers(0, 50), st.tuples(FRACTIONS, FRACTIONS), st.booleans())
def test_every_fraction_of_a_few_images_gives_a_partition(
    count: int, seed: int, fractions: tuple[float, float], exact: bool
) -> None:
    """Also where the first set has taken the images of the second set's interval."""
    parts = held_out_indices(hashes(count, seed), fractions, seed, exact=exact)
    assert torch.cat(parts).sort().values.tolist() == list(range(count))
    assert [len(part) > 0 for part in parts[1:]] == [each > 0 for each in fractions]


@pytest.mark.parametrize("fractions", [(0.1, 0.0), (0.0, 0.1), (0.1, 0.1)])
def test_copies_of_one_image_cannot_be_divided(fractions: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="cannot hold out 20 of 20 training images"):
        held_out_indices(torch.full((20,), 7), fractions, seed=0)


def _labeled(labels: list[int]) -> Split:
    return Split(torch.zeros(len(labels), 3, 1, 1, dtype=torch.uint8), torch.tensor(labels))


def test_a_balanced_sample_of_sorted_classes_has_all_of_them() -> None:
    sample = _labeled([0] * 50 + [1] * 3 + [2] * 40).balanced_sample(15)
    assert sample.labels is not None
    assert sample.labels.bincount().tolist() == [6, 3, 6]


def test_samples_are_nested_keep_the_order_and_have_all_images_alike_likely() -> None:
    split = Split(torch.arange(200, dtype=torch.uint8).reshape(200, 1, 1, 1).expand(200, 3, 1, 1))
    small, large = (split.sample(count, seed=4).images[:, 0, 0, 0].tolist() for count in (20, 50))
    assert set(small) < set(large)
    assert large == sorted(large)
    drawn = torch.zeros(200)
    for seed in range(500):
        drawn[split.sample(50, seed).images[:, 0, 0, 0].long()] += 1
    assert (drawn - 125).abs().max() < 5 * (500 * 0.25 * 0.75) ** 0.5


def test_groups_follow_their_images() -> None:
    one = replace(_labeled([0, 1, 2]), groups=torch.tensor([4, 4, 6]))
    other = replace(_labeled([3]), groups=torch.tensor([9]))
    both = one.concat(other).select(torch.tensor([3, 1, 2])).to(torch.device("meta"))
    assert both.groups is not None
    assert both.groups.tolist() == [9, 4, 6]
    assert one.concat(_labeled([3])).groups is None


def test_a_device_gets_the_pixels_of_the_split_and_no_sizes() -> None:
    split = replace(_labeled([0, 1, 2]), full_resolution=whole(noise(2, 3), noise(1, 2), noise(3, 1)))
    wide = split.select(torch.arange(2)).to(torch.device("meta")).full_resolution
    assert wide is not None
    assert (wide.device.type, wide.files[0].shape) == ("meta", (24,))  # type: ignore[union-attr]
    assert {sizes.device.type for sizes in (wide.rows, wide.heights, wide.widths)} == {"cpu"}

"""Completions have the distribution and the log-likelihood that they are said to have, by brute force."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import permutations, product
from typing import get_args

import pytest
import torch
from torch import Tensor

from isopix.codecs.palette_spec import PaletteSpec
from isopix.core import device
from isopix.core.types import Grid, Images
from isopix.data.dataset import DataConfig
from isopix.generate.complete import PartialCompletions, Prompt, complete_images, completion_steps
from isopix.generate.filling import num_known_nearby, remaining_after
from isopix.generate.results import Order, Passes, SamplingConfig
from isopix.objectives.base import ObjectiveSpec, PretrainModel
from isopix.objectives.objectives import Autoregressive, Masked
from tests.laws import cases

COLORS, POSITIONS = 3, 4
GIVEN = (2, 1, 0, 1)  # of the image that is completed
DRAWS = 8000
Probabilities = dict[tuple[int, ...], float]


def tiny(objective: ObjectiveSpec) -> PretrainModel:
    """A network of 2 x 2 positions of three colors."""
    parts = {"data": DataConfig(rows=2, cols=2), "codec": PaletteSpec(num_colors=COLORS)}
    model = cases.busy_model(cases.LAW.updated(**parts, objective=objective, block=cases.TINY_TRANSFORMER))
    model.network.head.project.weight.data *= 0.5  # no outcome is too rare to count
    return model


def image(model: PretrainModel) -> Images:
    return model.network.codec.decode(torch.tensor(GIVEN)[None, :, None])


def hiding(*positions: int) -> Tensor:
    return torch.isin(torch.arange(POSITIONS), torch.tensor(positions))[None, :, None]


def log_probs(model: PretrainModel, codes: tuple[int, ...], masked: set[int] | None) -> Tensor:
    """ln p of each color at each position, [N K] in float64, by one full forward pass."""
    network, given = model.network, torch.tensor(codes)[None, :, None]
    mask = None if masked is None else hiding(*masked)
    return network(given, mask)[0, :, 0].detach().double().log_softmax(-1)


def filled(codes: tuple[int, ...], new: dict[int, int]) -> tuple[int, ...]:
    return tuple(new.get(position, code) for position, code in enumerate(codes))


def path_distribution(
    model: PretrainModel, codes: tuple[int, ...], hidden: set[int], order: Order, keep: list[int]
) -> Probabilities:
    """Every outcome of passes after which `keep` positions remain hidden, over all draws and orders."""
    if not keep:
        return {codes: 1.0}
    found: Probabilities = Counter()
    nats, places = log_probs(model, codes, hidden), sorted(hidden)
    count = len(hidden) - keep[0]
    for values in product(range(COLORS), repeat=len(places)):
        drawn = dict(zip(places, values, strict=True))
        own = {position: float(nats[position, code]) for position, code in drawn.items()}
        chance = math.exp(sum(own.values()))
        sets = list(permutations(places, count))
        if order == "confident":
            sets = [tuple(sorted(places, key=lambda position: -own[position])[:count])]
        elif order == "inward":
            near = {place: known_nearby(place, hidden) for place in places}
            least = sorted(near.values(), reverse=True)[count - 1]
            surer = {place for place in places if near[place] > least}
            sets = [each for each in sets if surer <= set(each) and min(near[i] for i in each) == least]
        for kept in sets:
            after = filled(codes, {position: drawn[position] for position in kept})
            rest = path_distribution(model, after, hidden - set(kept), order, keep[1:])
            for outcome, share in rest.items():
                found[outcome] += chance * share / len(sets)
    return found


def known_nearby(place: int, hidden: set[int]) -> int:
    """The known positions of the 2 x 2 grid, those beside a position counting more than the diagonal one."""
    weights = {0: math.comb(6, 3), 1: math.comb(6, 4)}  # by the distance in rows, and in columns
    row, col = divmod(place, 2)
    others = [divmod(position, 2) for position in range(POSITIONS) if position not in hidden]
    return sum(weights[abs(row - r)] * weights[abs(col - c)] for r, c in others)


def chi_square(model: PretrainModel, expected: Probabilities, hidden: Tensor, passes: Passes) -> float:
    """Of DRAWS completions of one image, against the expected frequencies."""
    prompt = Prompt(image(model), hidden, DRAWS, passes=passes, seed=1)
    found = complete_images(model, prompt, batch_size=DRAWS)
    codes = model.network.codec.encode(found.images[0])[..., 0].tolist()
    counts = Counter(map(tuple, codes))
    assert set(counts) <= set(expected)
    assert sum(expected.values()) == pytest.approx(1)
    return sum((counts[each] - DRAWS * p) ** 2 / (DRAWS * p) for each, p in expected.items())


@pytest.mark.parametrize("order", get_args(Order))
@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_masked_completions_have_the_frequencies_of_all_paths(order: Order, iterations: int) -> None:
    model = tiny(Masked())
    keep = {1: [0], 2: [1 if order == "inward" else 2, 0], 3: [2, 1, 0]}[iterations]
    expected = path_distribution(model, GIVEN, {0, 2, 3}, order, keep)
    assert max(expected.values()) > 1.5 / len(expected)
    assert (
        chi_square(model, expected, hiding(0, 2, 3), Passes(order=order, iterations=iterations)) < 54
    )  # 26 degrees


def test_completions_that_no_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(Autoregressive())
    monkeypatch.setattr(device, "total_memory", lambda where: 5 * 2 * image(model).numel())
    with pytest.raises(ValueError, match="not enough memory for 6 images; sample fewer; 5 fit"):
        complete_images(model, Prompt(image(model), hiding(0, 2), 6))


def test_the_log_likelihood_of_an_autoregressive_completion_is_a_sum_over_hidden_positions() -> None:
    """By a full forward pass in float64, at temperature 1, whatever it was sampled with."""
    model = tiny(Autoregressive())
    model.network.double()
    sampling = SamplingConfig(temperature=3.0, top_k=2)
    found = complete_images(model, Prompt(image(model), hiding(0, 2), 5, sampling))
    assert found.likelihood == "raster"
    for picture, nats in zip(found.images[0], found.log_likelihood[0], strict=True):
        codes = tuple(model.network.codec.encode(picture[None])[0, :, 0].tolist())
        own = log_probs(model, codes, None)
        by_hand = sum(float(own[position, codes[position]]) for position in (0, 2))
        assert float(nats) == pytest.approx(by_hand, abs=1e-5)


def steps_of(
    model: PretrainModel, each: int, sampling: SamplingConfig, passes: Passes
) -> Iterator[PartialCompletions]:
    return completion_steps(model, Prompt(image(model), hiding(0, 2, 3), each, sampling, passes))


@pytest.mark.parametrize("order", get_args(Order))
def test_the_log_probability_of_a_path_is_a_sum_over_its_passes(order: Order) -> None:
    model = tiny(Masked())
    model.network.double()
    settings, passes = SamplingConfig(temperature=3.0), Passes(order=order, iterations=2)
    steps = list(steps_of(model, 4, settings, passes))
    final = model.network.codec.encode(steps[-1].images[0])[..., 0].tolist()
    for completion, codes in enumerate(final):
        hidden, by_hand = {0, 2, 3}, 0.0
        for step in steps:
            before = filled(tuple(codes), dict.fromkeys(hidden, 0))
            own = log_probs(model, before, hidden)
            left = set(step.remaining[0, completion].flatten().nonzero()[:, 0].tolist())
            by_hand += sum(float(own[position, codes[position]]) for position in hidden - left)
            hidden = left
        assert float(steps[-1].log_likelihood[0, completion]) == pytest.approx(by_hand, abs=1e-5)


def test_remaining_positions_follow_the_cosine_or_a_line_and_each_pass_fills_in_one() -> None:
    def remaining(count: int, passes: Passes) -> list[int]:
        counts = torch.tensor([count])
        return [int(remaining_after(counts, n, passes)) for n in range(1, passes.iterations + 1)]

    cosine = Passes(order="random", iterations=5)
    assert remaining(100, cosine) == [95, 80, 58, 30, 0]  # 100 cos(18 degrees), 36, 54, 72 and 90
    assert remaining(7, cosine) == [6, 5, 4, 2, 0]
    assert remaining(3, cosine) == [2, 1, 0, 0, 0]
    assert remaining(120, Passes(iterations=10))[:2] == [108, 96]
    assert remaining(5, Passes(iterations=10))[::8] == [4, 0]


def test_inward_order_goes_from_the_edge_of_a_hole_to_its_middle() -> None:
    """Against a loop over all pairs of positions, and by the rings of a square hole."""
    grid, hidden = Grid(9, 8), torch.zeros(2, 9, 8, dtype=torch.bool)
    hidden[0, 2:7, 2:7] = True
    hidden[1] = torch.rand(9, 8, generator=torch.Generator().manual_seed(0)) < 0.7
    found = num_known_nearby(hidden.flatten(1)[..., None], grid)[..., 0].view(2, 9, 8)
    for image, row, col in product(range(2), range(9), range(8)):
        by_hand = sum(
            math.comb(6, 3 + r - row) * math.comb(6, 3 + c - col)
            for r, c in product(range(9), range(8))
            if abs(r - row) <= 3 and abs(c - col) <= 3 and not hidden[image, r, c]
        )
        assert found[image, row, col] == by_hand
    edge, ring, middle = found[0, 2, 2:7], found[0, 3, 3:6], found[0, 4, 4]
    assert edge.min() > ring.min() > middle

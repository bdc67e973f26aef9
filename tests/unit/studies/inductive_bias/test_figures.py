"""The figures of a study are drawn from its trials and examples alone, with numbers and sample sizes."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from isopix.studies.inductive_bias.claims_figure import row_numbers
from matplotlib.figure import Figure

from isopix.analysis.inductive_biases import BiasMeasurements, ReceptiveField
from isopix.analysis.similarity import LevelSimilarity
from isopix.plots import style, svg
from isopix.plots.comparisons import ForestRow, Mark
from isopix.storage.atomic import write_json
from isopix.studies.inductive_bias import captions
from isopix.studies.inductive_bias.figures import claim_rows, draw, group_trials
from isopix.studies.inductive_bias.measure import Example
from isopix.studies.inductive_bias.results import PoolProbes, Trial
from tests.unit.plots.drawn import check_readable
from tests.unit.plots.readable import check_readable
from tests.unit.studies.inductive_bias.worlds import probed

BLOCKS, SEEDS = ("conv", "mixer", "transformer-1"), 3
SHIFTS = {"mean": 0.0, "grid4": 0.1}
TITLES = [
    *("Reconstructions", "Encodings", "Fourier features", "Loss and accuracy", "Learned encodings"),
    *("Depth, mean pool", "Depth, 4 × 4 pool"),
    *("Layers by encoding, mean pool", "Layers by encoding, 4 × 4 pool"),
    *("Inductive biases", "Receptive field of a pixel"),
]


def probes(depth: int, accuracy: float) -> PoolProbes:
    layers = [accuracy + 0.02 * layer for layer in range(depth + 1)]
    before = [accuracy - 0.2 + 0.01 * layer for layer in range(depth + 1)]
    return PoolProbes(
        probed(layers, images=1000), probed(before), probed([0.35]), probed([0.3]), majority=0.125
    )


def trials(seeds: int = SEEDS) -> list[Trial]:
    return [
        Trial(
            block,
            "pix2vec",
            depth,
            seed,
            loss=1 + place + 0.1 * seed,
            probes={pool: probes(depth, 0.6 - 0.1 * place + shift) for pool, shift in SHIFTS.items()},
        )
        for place, block in enumerate(BLOCKS)
        for depth, seed in product((1, 3), range(seeds))
    ]


def example(block: str, depth: int = 3) -> Example:
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    samples = np.full((7, 7), 5)
    samples[3, 3], samples[0, 0] = 64, 0
    field = ReceptiveField(np.pad([[1.0]], 3), samples)
    layers = [0.1] * (depth + 1)
    return Example(
        *(block, depth, images, torch.zeros(2, 4, 4, dtype=torch.bool), images, images, 0.5),
        LevelSimilarity(np.eye(256), 0.2, 9.0),
        BiasMeasurements(layers, [field] * (depth + 1), layers),
    )


EXAMPLES = [example(block) for block in BLOCKS]


MEASUREMENTS = {
    ((block, "pix2vec", 3), seed): {
        "translation_error": [0.4 + 0.2 * seed] * 4,
        "permutation_error": [0.3] * 4,
        "receptive_field_mean": [1.0] * 4,
    }
    for block, seed in product(BLOCKS, range(2))
}


def contrasts(accuracy: float, interval: tuple[float, float] | None) -> list[dict[str, Any]]:
    loss = {"text": "loss(mixer) − loss(conv)", "unit": "nats", "mean": 0.1, "interval": (0.05, 0.15)}
    points = {"text": "accuracy(conv) − accuracy(mixer)", "unit": "points", "mean": accuracy}
    missing = {"text": "other", "unit": "nats", "mean": None, "interval": None, "effect": 0.02}
    return [{**loss, "effect": 0.02}, {**points, "interval": interval, "effect": 4.0}, missing]


CLAIMS = {
    "mean": [{"letter": "a", "contrasts": contrasts(40.0, (30.0, 50.0))}],
    "grid4": [{"letter": "a", "contrasts": contrasts(8.0, None)}],
}


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write only the numbers of figures, in tests of these and of captions: pictures take seconds."""
    monkeypatch.setattr(
        style, "write_figure", lambda _, stem, numbers: write_json(stem.with_suffix(".json"), numbers)
    )
    monkeypatch.setattr(svg, "svg_markup", lambda *given, **named: "")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder, and captions by title, in order."""
    out = tmp_path_factory.mktemp("figures")
    return out, {str(chart.title): str(chart.caption) for chart in draw(trials(), EXAMPLES, out)}


def test_figures_have_the_order_of_the_paper(drawn: tuple[Path, dict[str, str]]) -> None:
    out, found = drawn
    assert list(found) == TITLES
    names = ["figure-2", "figure-3", "figure-4", "figure-5"]
    names += [f"figure-{number}-{pool}" for number in (6, 7) for pool in SHIFTS]
    for name in [*names, "biases", "receptive_fields"]:
        assert all((out / f"{name}.{suffix}").is_file() for suffix in ("png", "svg", "json"))


def test_numbers_are_those_of_the_groups_and_baselines(drawn: tuple[Path, dict[str, str]]) -> None:
    numbers = json.loads((drawn[0] / "figure-4.json").read_text())
    for pool in ("mean", "grid4"):
        assert numbers[pool]["baselines"] == pytest.approx(
            {"raw pixels": 0.35, "raw pixels, PCA": 0.3, "chance": 0.125}
        )
        for group in group_trials(trials(), pool):
            record = numbers[pool]["networks"][f"{group.block}-pix2vec-{group.depth}"]
            assert record["accuracy"]["mean"] == group.accuracy.mean
            assert record["loss"]["mean"] == group.loss.mean
            assert record["untrained"]["mean"] == group.untrained.mean
            assert record["untrained_layers"][-1]["mean"] == pytest.approx(group.untrained.mean)
            assert len(record["layers"]) == len(record["untrained_layers"]) == group.depth + 1


def test_captions_say_how_much_was_measured(drawn: tuple[Path, dict[str, str]]) -> None:
    found = drawn[1]
    every = (
        "1,000 test images; 18 networks of 6 architectures; mean and standard deviation (bars) over 3 seeds"
    )
    for title in ("Loss and accuracy", "Depth, mean pool", "Depth, 4 × 4 pool"):
        assert every in found[title]
    assert "1,000 test images; 6 networks of 2 architectures" in found["Layers by encoding, 4 × 4 pool"]
    for title in ("Inductive biases", "Receptive field of a pixel"):
        assert "64 test images" in found[title]
        assert "3 blocks with pix2vec, seed 0" in found[title]


def test_a_caption_counts_what_exceeds_the_baselines(drawn: tuple[Path, dict[str, str]]) -> None:
    text = "exceeds that before training in 6 of 6 architectures, and raw pixels in 6"
    assert drawn[1]["Loss and accuracy"].count(text) == 2
    assert "Layer with the best mean at 3 blocks: pix2vec 3." in drawn[1]["Depth, mean pool"]
    last = "Best mean at the last layer: mixer pix2vec 56.0\u00a0%; transformer, 1 head pix2vec 46.0\u00a0%."
    assert last in drawn[1]["Layers by encoding, mean pool"]


def test_fourier_features_gain_rank_and_lose_distance_with_sigma(drawn: tuple[Path, dict[str, str]]) -> None:
    numbers = json.loads((drawn[0] / "figure-3.json").read_text())
    swept = [each for each in numbers.values() if isinstance(each, dict) and "effective_rank" in each]
    ranks, distances = (
        [each[name] for each in swept] for name in ("effective_rank", "distance_preservation")
    )
    assert len(swept) == 4
    assert ranks == sorted(ranks)
    assert distances == sorted(distances, reverse=True)


def test_one_seed_has_no_bars() -> None:
    assert captions.sample_text(trials(seeds=1)).endswith("one seed each, without error bars")


def test_unequal_numbers_of_seeds_are_a_range() -> None:
    assert captions.sample_text(trials()[1:]).endswith("over 2 to 3 seeds")


@pytest.mark.usefixtures("without_pictures")
def test_examples_have_the_largest_depth_that_all_blocks_have(tmp_path: Path) -> None:
    given = [example("conv", 1), example("conv", 3), example("mixer", 1)]
    found = {chart.title: str(chart.caption) for chart in draw([], given, tmp_path)}
    assert "1 block with pix2vec" in found["Inductive biases"]
    more = {chart.title: str(chart.caption) for chart in draw([], [*given, example("mixer", 3)], tmp_path)}
    assert "3 blocks with pix2vec" in more["Inductive biases"]
    assert set(json.loads((tmp_path / "biases.json").read_text())) >= {"conv", "mixer"}


@pytest.mark.usefixtures("without_pictures")
def test_without_trials_only_the_encodings_are_drawn(tmp_path: Path) -> None:
    assert [chart.title for chart in draw([], [], tmp_path)] == ["Encodings", "Fourier features"]


@pytest.mark.usefixtures("without_pictures")
def test_figures_of_only_some_blocks_are_those_that_they_allow(tmp_path: Path) -> None:
    mixers = [trial for trial in trials(seeds=1) if trial.block == "mixer"]
    titles = [chart.title for chart in draw(mixers, [], tmp_path)]
    assert titles == ["Encodings", "Fourier features", "Loss and accuracy", *TITLES[7:9]]


@pytest.mark.usefixtures("without_pictures")
def test_no_components_no_line(tmp_path: Path) -> None:
    given = trials(seeds=1)
    bare = [
        Trial(
            *each.architecture,
            each.seed,
            each.loss,
            {
                pool: PoolProbes(own.network, own.untrained, own.raw_pixels, None, own.majority)
                for pool, own in each.probes.items()
            },
        )
        for each in given
    ]
    draw(bare, [], tmp_path)
    numbers = json.loads((tmp_path / "figure-4.json").read_text())
    assert list(numbers["mean"]["baselines"]) == ["raw pixels", "chance"]


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    """The figures by name, of examples in another order than that of blocks."""
    found: dict[str, Figure] = {}

    def keep(figure: Figure, stem: Path, numbers: object) -> None:
        found[stem.name] = figure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "write_figure", keep)
        patch.setattr(svg, "svg_markup", lambda *given, **named: "")
        out = tmp_path_factory.mktemp("kept")
        draw(trials(), EXAMPLES[::-1], out, measurements=MEASUREMENTS, claims=CLAIMS)
    return found


def test_text_of_every_figure_is_readable_in_print_and_axes_have_labels(figures: dict[str, Figure]) -> None:
    assert len(figures) == 11
    for figure in figures.values():
        check_readable(figure)


@pytest.mark.usefixtures("without_pictures")
def test_blocks_have_one_order_in_all_figures(figures: dict[str, Figure], tmp_path: Path) -> None:
    expected = ["convolution", "mixer", "transformer, 1 head"]
    for name in ("figure-5", "receptive_fields"):
        titles = [axes.get_title("left").replace("\n", " ") for axes in figures[name].axes[:3]]
        assert titles == expected
    for name in ("figure-4", "figure-6-mean", "biases"):
        assert [text.get_text() for text in figures[name].legends[0].get_texts()] == expected
    chart = draw([], EXAMPLES[::-1], tmp_path)[0]
    places = [str(chart.caption).index(f"{block} 50.0") for block in expected]
    assert places == sorted(places)


@pytest.mark.usefixtures("without_pictures")
def test_biases_are_means_over_seeds(tmp_path: Path) -> None:
    charts = draw([], EXAMPLES, tmp_path, measurements=MEASUREMENTS)
    (caption,) = [str(chart.caption) for chart in charts if chart.title == "Inductive biases"]
    assert "mean and standard deviation (bars) over 2 seeds" in caption
    assert "seed 0" not in caption
    numbers = json.loads((tmp_path / "biases.json").read_text())["mixer"]
    assert numbers["seeds"] == 2
    assert [layer["translation_error"] for layer in numbers["means"]] == [0.5] * 4
    assert numbers["stds"][0]["translation_error"] == pytest.approx(0.2 * 0.5**0.5)


def test_statistics_of_levels_have_a_true_minus_sign(tmp_path: Path) -> None:
    found: list[Figure] = []
    given = [each._replace(encoding=LevelSimilarity(np.eye(256), -0.012, 30.0)) for each in EXAMPLES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "write_figure", lambda figure, *_: found.append(figure))
        patch.setattr(svg, "svg_markup", lambda *given, **named: "")
        draw([], given, tmp_path)
    assert found[2].axes[0].get_xlabel() == "Level\nρ = −0.01\nrank 30"


def test_captions_tell_the_encoding_from_its_learned_vectors(drawn: tuple[Path, dict[str, str]]) -> None:
    assert "after the learned layer" in drawn[1]["Encodings"]
    assert "red has 1 of 256 levels" in drawn[1]["Learned encodings"]


def test_a_correlation_has_a_true_minus_sign(drawn: tuple[Path, dict[str, str]]) -> None:
    assert "correlation with the loss −" in drawn[1]["Loss and accuracy"]


def test_claims_have_a_panel_per_unit_and_a_mark_per_pool_that_differs() -> None:
    rows = claim_rows(CLAIMS)
    loss, accuracy = rows.values()
    assert list(rows) == [
        "Difference of loss (nats per masked sub-pixel)",
        "Difference of accuracy (percentage points)",
    ]
    assert loss == [ForestRow("a  loss(mixer) − loss(conv)", {"both pools": Mark(0.1, (0.05, 0.15))}, 0.02)]
    assert accuracy[0].marks == {"mean pool": Mark(40.0, (30.0, 50.0)), "4 × 4 pool": Mark(8.0, None)}
    numbers = row_numbers(rows)["Difference of loss (nats per masked sub-pixel)"][
        "a  loss(mixer) − loss(conv)"
    ]
    assert numbers == {"effect": 0.02, "both pools": {"mean": 0.1, "interval": (0.05, 0.15)}}

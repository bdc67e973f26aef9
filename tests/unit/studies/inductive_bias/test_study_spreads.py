"""The spreads of `bench/study_spreads.py` are those that made-up and simulated studies were given."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCH = Path(__file__).parents[4] / "bench"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module(name)


def test_components_are_free_of_the_errors_of_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks without the noise of five seeds, which would make 1.1 of 1.0, and encodings without that of
    three networks, which would make 1.0 of 0.8.
    """
    spreads, draw = load("study_spreads", monkeypatch), np.random.default_rng(0)
    shape = (60, 60, 3, 5)  # blocks, encodings, depths, seeds
    values = draw.normal(size=shape)
    values += 1.0 * draw.normal(size=(*shape[:3], 1)) + 0.8 * draw.normal(size=(*shape[:2], 1, 1))
    values += 7 * draw.normal(size=(1, *shape[1:3], 1))[:, :, :1]  # of an encoding in all blocks: no spread
    found = spreads.of_blocks(values)
    assert (found.seeds, found.networks, found.encodings) == pytest.approx((1.0, 1.0, 0.8), rel=0.06)
    block = (
        draw.normal(size=(8000, 3, 5)) + draw.normal(size=(8000, 3, 1)) + 0.8 * draw.normal(size=(8000, 1, 1))
    )
    found = spreads.of_encodings(block)
    assert (found.seeds, found.networks, found.encodings) == pytest.approx((1.0, 1.0, 0.8), rel=0.06)
    found = spreads.of_encodings(block[:, :1])  # networks and encodings cannot be told apart
    assert (found.networks, found.encodings) == (0, pytest.approx((1 + 0.8**2) ** 0.5, rel=0.06))


@pytest.mark.slow
def test_a_simulated_study_has_the_measured_spreads(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, spreads = (load(each, monkeypatch) for each in ("study_simulation", "study_spreads"))
    measured = spreads.measured_spread("study-small")
    variances = list[float]()
    for number in range(4):
        study = simulation.simulated_study("small, measured", "none", np.random.default_rng(number))
        accuracies: dict[tuple[str, str, int], list[float]] = {}
        for trial in study.trials:
            accuracies.setdefault(trial.architecture, []).append(100 * study.probes(trial).test_accuracy)
        variances.append(spreads.between_seeds(np.array(list(accuracies.values()))) ** 2)
    assert np.mean(variances) ** 0.5 == pytest.approx(measured.accuracy.seeds, rel=0.1)


@pytest.mark.slow
def test_the_measured_differences_of_encodings_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of color errors, which are larger than the stated 2 % of the range."""
    simulation = load("study_simulation", monkeypatch)
    spread = simulation.SPREADS["small, measured"]
    assert spread.mean_absolute.encodings > 0.02
    scale, kind = simulation.SCALES["small"], ("mixer", "pix2vec", 3)

    def shifts(world: str) -> np.ndarray:
        drawn = [
            simulation.Shifts(scale, spread, world, np.random.default_rng(number)) for number in range(400)
        ]
        return np.array([[*each.results[kind], *each.colors[kind]] for each in drawn])

    names = ("accuracy", "loss", "mean_absolute", "histogram", "misplaced_fraction")
    components = [getattr(spread, name) for name in names]
    expected = [np.hypot(each.networks, each.encodings) for each in components]
    assert shifts("j").std(0) == pytest.approx(expected, rel=0.12)
    assert shifts("encodings").std(0) == pytest.approx([each.encodings for each in components], rel=0.12)
    assert not shifts("none").any()

"""A loss that has risen for good has diverged; the first best validation accuracy is selected."""

import math

import numpy as np
import pytest
import torch

from isopix.train.stopping import DivergedError, DivergenceDetector, EarlyStopping, chance_level_warning

STEPS, EVERY = 10_000, 10
CHANCE = math.log(512)
TIME = np.arange(EVERY, STEPS + 1, EVERY) / STEPS
LEARNING = 2.3 + (CHANCE - 2.3) * np.exp(-TIME / 0.1)


def noisy(losses: np.ndarray, deviation: float, seed: int = 0) -> np.ndarray:
    return losses + deviation * np.random.default_rng(seed).standard_normal(len(losses))


def detect(losses: np.ndarray, steps: int = STEPS, initial: float = CHANCE) -> None:
    detector = DivergenceDetector(steps)
    detector.update({"kind": "evaluation", "step": 0, "loss_nats": initial})
    for number, loss in enumerate(losses.tolist(), 1):
        detector.update({"kind": "train", "step": number * steps // len(losses), "loss_nats": loss})


def rise(at: float, height: float, lasts: float) -> np.ndarray:
    """`height` nats from `at` on, gone with a time constant of `lasts` of the run."""
    return np.where(at <= TIME, height * np.exp(-(TIME - at) / lasts), 0.0)


NOT_DIVERGED = {
    "a loss that falls": LEARNING,
    "slow learning": CHANCE - 0.4 * TIME,
    "a plateau at chance": np.full_like(TIME, CHANCE),
    "a plateau of half the run before the fall": np.where(TIME < 0.5, CHANCE, 4.0),
    "a fall that stops early": np.maximum(LEARNING, 5.5),
    "a spike that recovers": LEARNING + rise(0.3, 4.0, 0.05),
    "a spike to hundreds of nats that recovers": LEARNING + rise(0.05, 300.0, 0.02),
    "many short spikes": LEARNING + sum(rise(at, 4.0, 0.02) for at in np.arange(0.1, 1, 0.15)),
    "a high rate's noise, that decays with the rate": LEARNING + 0.5 * np.sin(np.pi * TIME),
}
DIVERGED = {
    "back at chance": (np.where(TIME < 0.1, LEARNING, CHANCE), 0.1),
    "back at the frequencies of the colors": (np.where(TIME < 0.2, LEARNING, 5.5), 0.2),
    "above chance before anything was learnt": (np.where(TIME < 0.03, CHANCE, 9.0), 0.03),
    "above chance from the first step on": (np.full_like(TIME, 40.0), 0.0),
    "growing without end": (CHANCE * np.exp(TIME * 40), 0.0),
    "a spike that recovers too late to be the best": (LEARNING + rise(0.3, 4.0, 0.9), 0.3),
}


@pytest.mark.parametrize("deviation", [0.0, 0.2])
@pytest.mark.parametrize("curve", NOT_DIVERGED)
def test_a_run_that_may_still_be_the_best_has_not_diverged(curve: str, deviation: float) -> None:
    detect(noisy(NOT_DIVERGED[curve], deviation))


@pytest.mark.parametrize("deviation", [0.0, 0.2])
@pytest.mark.parametrize("curve", DIVERGED)
def test_a_loss_that_has_risen_for_good_has_diverged_from_its_rise_on(curve: str, deviation: float) -> None:
    losses, rose = DIVERGED[curve]
    with pytest.raises(DivergedError) as raised:
        detect(noisy(losses, deviation))
    assert raised.value.step == pytest.approx(rose * STEPS, abs=0.015 * STEPS)


@pytest.mark.parametrize(
    ("initial", "final", "deviation"), [(0.69, 0.6, 0.15), (2.3, 2.0, 0.25), (1.0, 0.8, 0.2)]
)
def test_the_noise_of_small_batches_is_rarely_a_rise(initial: float, final: float, deviation: float) -> None:
    """The lowest of many medians is far below the mean: 2 classes, 10 classes, a regression."""
    diverged = 0
    for seed in range(100):
        noise = deviation * np.random.default_rng(seed).standard_normal(100)
        try:
            detect(final + (initial - final) * np.exp(-np.arange(1, 101) / 10) + noise, 100, initial)
        except DivergedError:
            diverged += 1
    assert diverged <= 2


def record(step: int, accuracy: float, split: str = "validation") -> dict[str, object]:
    return {"kind": "evaluation", "step": step, "split": split, "accuracy": accuracy}


def test_the_first_of_equally_good_evaluations_is_kept() -> None:
    early = EarlyStopping(patience=2)
    better = [early.update(record(step, accuracy)) for step, accuracy in enumerate([0.1, 0.3, 0.3])]
    assert better == [True, True, False]
    assert (early.best_score, early.best_step, early.should_stop) == (0.3, 1, False)
    assert not early.update(record(3, 0.2))
    assert early.should_stop


def test_a_rewind_keeps_the_best_weights_that_are_saved() -> None:
    """Those of a later step have replaced the earlier ones: a worse evaluation must not replace them."""
    early = EarlyStopping(patience=2)
    early.replay([record(0, 0.1), record(2, 0.3), record(4, 0.5)])
    [note] = early.rewind(2, [record(0, 0.1), record(2, 0.3)])
    assert "step 4 from before, with validation accuracy 50.0%" in note
    assert (early.best_score, early.best_step, early.evaluations_since_best) == (0.5, 4, 0)
    assert not early.update(record(4, 0.4))
    assert early.update(record(6, 0.6))


@pytest.mark.parametrize(("right", "silent"), [(50, False), (59, False), (61, True)])
def test_an_accuracy_not_significantly_above_chance_is_warned_of(right: int, silent: bool) -> None:
    """Half of 100 images are of one class: two standard deviations are 10 points."""
    text = chance_level_warning(right / 100, torch.arange(100) % 2)
    assert (text == "") == silent
    if not silent:
        assert f"validation accuracy {right}.0% on 100 images is not above chance level" in text
        assert "optimizer.lr" in text

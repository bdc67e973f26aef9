"""A loss that has risen for good is dead; one that may still be the best is not."""

import math

import numpy as np
import pytest

from isopix.train.divergence import FEWEST, PATIENCE, Spike

STEPS, EVERY = 10_000, 10
CHANCE = math.log(512)
TIME = np.arange(EVERY, STEPS + 1, EVERY) / STEPS
LEARNING = 2.3 + (CHANCE - 2.3) * np.exp(-TIME / 0.1)


def noisy(losses: np.ndarray, deviation: float, seed: int = 0) -> np.ndarray:
    return losses + deviation * np.random.default_rng(seed).standard_normal(len(losses))


def judge(losses: np.ndarray) -> Spike:
    spike = Spike(STEPS, before=CHANCE)
    for time, loss in zip(TIME, losses, strict=True):
        spike.see(round(time * STEPS), float(loss))
    return spike


def rise(at: float, height: float, lasts: float) -> np.ndarray:
    """`height` nats from `at` on, gone with a time constant of `lasts` of the run."""
    return np.where(at <= TIME, height * np.exp(-(TIME - at) / lasts), 0.0)


ALIVE = {
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
DEAD = {
    "back at chance": (np.where(TIME < 0.1, LEARNING, CHANCE), 0.1),
    "back at the frequencies of the colours": (np.where(TIME < 0.2, LEARNING, 5.5), 0.2),
    "above chance before anything was learnt": (np.where(TIME < 0.03, CHANCE, 9.0), 0.03),
    "above chance from the first step on": (np.full_like(TIME, 40.0), 0.0),
    "growing without end": (CHANCE * np.exp(TIME * 40), 0.0),
    "a spike that recovers too late to be the best": (LEARNING + rise(0.3, 4.0, 0.9), 0.3),
}


@pytest.mark.parametrize("deviation", [0.0, 0.2])
@pytest.mark.parametrize("curve", ALIVE)
def test_what_may_still_be_the_best_is_not_given_up(curve: str, deviation: float) -> None:
    assert not judge(noisy(ALIVE[curve], deviation)).dead


@pytest.mark.parametrize("deviation", [0.0, 0.2])
@pytest.mark.parametrize("curve", DEAD)
def test_what_has_risen_for_good_is_dead_from_its_rise_on(curve: str, deviation: float) -> None:
    losses, rose = DEAD[curve]
    found = judge(noisy(losses, deviation))
    assert found.dead
    assert found.since == pytest.approx(rose * STEPS, abs=0.015 * STEPS)


def test_death_is_declared_a_fifth_of_the_run_after_the_rise_and_no_sooner() -> None:
    spike = Spike(STEPS, before=CHANCE)
    losses = np.where(TIME <= 0.1, 3.0, CHANCE)
    dead = []
    for time, loss in zip(TIME, losses, strict=True):
        spike.see(round(time * STEPS), float(loss))
        dead.append(spike.dead)
    assert spike.since is not None
    assert dead.index(True) == (spike.since + PATIENCE * STEPS) / EVERY - 1


def test_what_is_dead_stays_dead() -> None:
    assert judge(np.where((TIME > 0.1) & (TIME < 0.5), CHANCE, 3.0)).dead


def test_a_short_run_is_judged_by_as_many_losses_as_tell() -> None:
    spike = Spike(20, before=CHANCE)
    for step in range(1, FEWEST):
        spike.see(step, 100.0)
        assert spike.since is None
    for step in range(FEWEST, FEWEST + 5):
        spike.see(step, 100.0)
    assert spike.dead


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_rule_has_no_unit(scale: float) -> None:
    for losses, dead in ((ALIVE["a spike that recovers"], False), (DEAD["back at chance"][0], True)):
        spike = Spike(STEPS, before=scale * CHANCE)
        for time, loss in zip(TIME, losses, strict=True):
            spike.see(round(time * STEPS), float(scale * loss))
        assert spike.dead == dead

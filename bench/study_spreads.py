"""The spreads of studies of inductive biases: as their simulation assumes them, or as results have them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from cells import RESULTS

from isopix.studies.inductive_bias.grid import Study
from isopix.studies.inductive_bias.trials import Trial

POOL = "grid4"  # under which most claims can be judged


@dataclass(frozen=True)
class Spread:
    """Standard deviations of accuracies (points) and losses (nats): over seeds, over the networks of a block
    and an encoding, and, of a block's difference from the others, over encodings. `difficulty` is that of
    test images and `taste` that of a network's own image effects, in probits.
    """

    seeds: float
    networks: float
    loss_seeds: float
    loss_networks: float
    encodings: float = 0.0
    loss_encodings: float = 0.0
    difficulty: float = 1.0
    taste: float = 0.6


def measured_spread(name: str) -> Spread:
    """Return the spreads of a committed study."""
    done = [each.trial for each in Study.open(RESULTS / name).results().values() if each.trial is not None]
    accuracy = _spreads(done, lambda trial: 100 * trial.probes[POOL].network.test_accuracy)
    loss = _spreads(done, lambda trial: trial.loss)
    return Spread(
        seeds=accuracy[0],
        networks=accuracy[1],
        encodings=accuracy[2],
        loss_seeds=loss[0],
        loss_networks=loss[1],
        loss_encodings=loss[2],
    )


def _spreads(trials: list[Trial], value: Callable[[Trial], float]) -> tuple[float, float, float]:
    """Return the standard deviations over seeds, over networks and over encodings, each rounded.

    The last two are those of interactions with the block: what an encoding or a depth adds to all blocks
    alike is taken out.
    """
    values: dict[tuple[str, str, int], list[float]] = {}
    for trial in trials:
        values.setdefault(trial.architecture, []).append(value(trial))
    blocks, encodings, depths = (list(dict.fromkeys(key[part] for key in values)) for part in range(3))
    means = np.array(
        [[[np.mean(values[b, e, d]) for d in depths] for e in encodings] for b in blocks]
    )  # [blocks, encodings, depths]
    cells = means.mean(2)
    own = cells - cells.mean(1, keepdims=True) - cells.mean(0, keepdims=True) + cells.mean()
    within = means - cells[..., None] - (means.mean((0, 1)) - means.mean())
    seeds = np.mean([np.var(each, ddof=1) for each in values.values()])
    networks = np.square(within).sum() / ((cells.size - 1) * (len(depths) - 1))
    between = np.square(own).sum() / ((len(blocks) - 1) * (len(encodings) - 1))
    seeds, networks, between = (round(float(np.sqrt(each)), 4) for each in (seeds, networks, between))
    return seeds, networks, between

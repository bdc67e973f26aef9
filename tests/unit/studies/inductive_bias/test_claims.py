"""The ten claims, tested on made-up trials that agree with the paper, contradict it, or are missing."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from isopix.recipes.isotropic import CELLS
from isopix.studies.claim_tests import ClaimResult
from isopix.studies.inductive_bias.claims import CLAIMS, claim_results
from isopix.studies.inductive_bias.trials import Trial

LOSS = {"conv": 3.6, "mixer": 4.0, "transformer-1": 4.6, "transformer-4": 4.6}
ENCODING = {"continuous": 0.03, "fourier": 0.015, "pix2vec": 0.0}  # accuracy at equal loss
PRESERVATION = {"conv": 0.9, "mixer": 0.6, "transformer-1": 0.1, "transformer-4": 0.1}
COLOR_ERROR = {
    "conv": {"mean_absolute": 0.02, "histogram": 0.01, "misplaced_fraction": 0.5},
    "mixer": {"mean_absolute": 0.05, "histogram": 0.01, "misplaced_fraction": 0.8},
    "transformer-1": {"mean_absolute": 0.2, "histogram": 0.15, "misplaced_fraction": 0.25},
    "transformer-4": {"mean_absolute": 0.2, "histogram": 0.15, "misplaced_fraction": 0.25},
}


@dataclass
class World:
    """Cells, and what was measurements of them."""

    trials: list[Trial]
    measurements: dict[tuple[tuple[str, str, int], int], dict[str, object]]

    def results(self) -> dict[str, ClaimResult]:
        return {each.letter: each for each in claim_results(self.trials, self.measurements)}


def world(sign: float = 1.0, seeds: int = 3, noise: float = 1e-4) -> World:
    """Trials that agree with the paper, or contradict it with `sign` -1; with a little noise by seed."""
    draw, trials, measurements = np.random.default_rng(0), list[Trial](), {}
    for seed in range(seeds):
        for block, encoding, depth in CELLS:
            loss = LOSS[block] - 0.1 * np.log2(depth) - (0.2 if encoding == "pix2vec" else 0.0)
            if block == "transformer-1" and encoding != "pix2vec":
                loss += 0.3
            level = 0.9 - 0.15 * loss + ENCODING[encoding] + 0.15 * ((block, encoding) == ("conv", "pix2vec"))
            shape = [-0.08 + 0.08 * np.sin(np.pi * layer / depth) for layer in range(depth + 1)]
            if block == "mixer":
                shape = [0.0] * (depth + 1) if encoding == "pix2vec" else shape
                level += {"fourier": 0.2, "continuous": 0.1, "pix2vec": 0.0}[encoding] * (depth == 6)
            accuracies = level + np.array(shape)
            if block == "transformer-1" and encoding == "pix2vec":
                accuracies = accuracies + 0.05
            value = sign * loss + noise * draw.normal()
            fractions = 0.5 + sign * (accuracies - 0.5) + noise * draw.normal(size=depth + 1)
            best = int(np.argmax(fractions))
            layers = tuple(map(float, fractions))
            trials.append(Trial(block, encoding, depth, seed, value, layers, layers, best))
            measurements[(block, encoding, depth), seed] = {
                "distance_preservation": [sign * PRESERVATION[block] + noise * draw.normal()] * 3,
                "color_error": {
                    name: sign * each + noise * draw.normal() for name, each in COLOR_ERROR[block].items()
                },
            }
    return World(trials, measurements)


LETTERS = [claim.letter for claim in CLAIMS]


def test_there_are_ten_claims() -> None:
    assert list("abcdefghij") == LETTERS


@pytest.mark.parametrize("letter", [each for each in LETTERS if each != "c"])
def test_a_claim_holds_for_trials_that_agree(letter: str) -> None:
    assert world().results()[letter].conclusion == "holds"


@pytest.mark.parametrize("letter", [each for each in LETTERS if each != "b"])
def test_a_claim_does_not_hold_for_trials_that_contradict_it(letter: str) -> None:
    assert world(sign=-1).results()[letter].conclusion == "does not hold"


def test_at_equal_loss_encodings_are_compared_at_equal_loss() -> None:
    """Accuracy falls with loss alike in all, and each encoding has its own level and its own losses."""
    draw, trials = np.random.default_rng(0), list[Trial]()
    for seed in range(3):
        for block, encoding, depth in CELLS:
            loss = LOSS[block] - 0.1 * depth - 0.3 * (encoding == "pix2vec") + 0.01 * draw.normal()
            accuracy = float(0.9 - 0.1 * loss + ENCODING[encoding] + 1e-4 * draw.normal())
            layers = (accuracy,) * (depth + 1)
            trials.append(Trial(block, encoding, depth, seed, float(loss), layers, layers, 0))
    found = World(trials, {}).results()["c"]
    assert found.conclusion == "holds"
    assert [contrast.mean for contrast in found.contrasts] == pytest.approx([1.5, 1.5], abs=0.05)


def test_losses_that_tell_nothing_of_accuracy_have_no_strong_correlation() -> None:
    found = world()
    draw = np.random.default_rng(0)
    found.trials = [replace(trial, loss=float(draw.normal())) for trial in found.trials]
    assert found.results()["b"].conclusion == "does not hold"


@pytest.mark.parametrize("letter", LETTERS)
def test_one_seed_decides_nothing(letter: str) -> None:
    assert world(seeds=1).results()[letter].conclusion == "not decided"


@pytest.mark.parametrize(
    ("missing", "letters"),
    [("mixer", "agij"), ("transformer-1", "ahij"), ("conv", "afij"), ("pix2vec", "cdghi")],
)
def test_missing_cells_leave_a_claim_undecided(missing: str, letters: str) -> None:
    found = world()
    found.trials = [trial for trial in found.trials if missing not in trial.architecture]
    conclusions = found.results()
    assert {letter: conclusions[letter].conclusion for letter in letters} == dict.fromkeys(
        letters, "not decided"
    )


def test_no_cells_decide_nothing() -> None:
    assert {each.conclusion for each in World([], {}).results().values()} == {"not decided"}


def test_a_difference_is_between_networks_that_are_equal_in_all_else() -> None:
    """A block that was made in one encoding alone is compared in that encoding alone."""
    found = world()
    found.trials = [trial for trial in found.trials if trial.block != "mixer" or trial.encoding == "fourier"]
    contrast = found.results()["a"].contrasts[0]
    own = {
        trial.architecture: trial.loss
        for trial in found.trials
        if trial.seed == 0 and trial.encoding == "fourier"
    }
    pairs = [own["mixer", "fourier", depth] - own["conv", "fourier", depth] for depth in (1, 3, 6, 12)]
    assert contrast.values[0] == pytest.approx(np.mean(pairs))


def test_where_the_papers_depth_is_missing_the_deepest_stands_for_it_and_is_named() -> None:
    found = world()
    found.trials = [trial for trial in found.trials if trial.depth <= 3]
    assert "mixer-3" in found.results()["g"].contrasts[0].text


def test_test_images_choose_no_layer_and_no_network() -> None:
    """Validation says layer 4 and the shallowest; test images are the best elsewhere."""
    found = world()
    own = {"conv": (0.0, 0.1, 0.1, 0.1, 0.5, 0.1, 0.1), "others": (0.3, 0.9, 0.2, 0.2, 0.4, 0.2, 0.1)}
    trials = [trial for trial in found.trials if trial.block == "conv" and trial.depth in (1, 6)]
    deep = [
        replace(trial, validation_accuracies=own["conv"], test_accuracies=own["others"], best_layer=4)
        for trial in trials
        if trial.depth == 6
    ]
    flat = [
        replace(
            trial,
            validation_accuracies=(0.6, 0.6),
            test_accuracies=(0.2 + 0.1 * (trial.encoding == "pix2vec"),) * 2,
            best_layer=0,
        )
        for trial in trials
        if trial.depth == 1
    ]
    found.trials = [*deep, *flat]
    last, first = found.results()["f"].contrasts
    assert last.values == pytest.approx([30, 30, 30])
    assert first.values == pytest.approx([10, 10, 10])
    assert found.results()["d"].contrasts[1].values == pytest.approx([10, 10, 10])


def test_every_layer_is_judged_for_itself() -> None:
    """Layers that are alike but for noise contradict no claim, though the least of them is negative."""
    found, draw = world(), np.random.default_rng(0)

    def shaken(trial: Trial) -> Trial:
        if trial.encoding == "pix2vec":
            return trial
        noise = draw.normal(scale=0.01, size=trial.depth + 1)
        return replace(trial, test_accuracies=tuple(map(float, 0.5 + noise)))

    found.trials = [shaken(trial) for trial in found.trials]
    layers = [contrast for contrast in found.results()["g"].contrasts if ", layer " in contrast.text]
    assert [contrast.text.partition(":")[0] for contrast in layers] == [
        f"accuracy of mixer-6, layer {layer}" for layer in range(7)
    ]
    assert min(contrast.mean for contrast in layers) < 0
    assert "does not hold" not in {contrast.conclusion for contrast in layers}


@pytest.mark.parametrize("letter", LETTERS)
def test_a_seed_that_has_only_begun_changes_no_number(letter: str) -> None:
    found = world()
    before = found.results()[letter]
    begun = [
        replace(trial, seed=3, loss=1.0) for trial in found.trials if trial.seed == 0 and trial.depth == 1
    ]
    found.trials = [*found.trials, *begun]
    found.measurements |= {
        (trial.architecture, 3): found.measurements[trial.architecture, 0] for trial in begun
    }
    assert found.results()[letter] == before

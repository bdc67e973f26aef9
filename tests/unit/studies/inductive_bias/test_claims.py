"""The ten claims: made-up cells that are as the paper says, the other way round, or missing."""

from dataclasses import dataclass

import numpy as np
import pytest

from isopix.recipes.isotropic import CELLS
from isopix.studies.claim_tests import Finding
from isopix.studies.inductive_bias.claims import CLAIMS, findings
from isopix.studies.inductive_bias.trials import Cell

LOSS = {"conv": 3.6, "mixer": 4.0, "transformer-1": 4.6, "transformer-4": 4.6}
ENCODING = {"continuous": 0.03, "fourier": 0.015, "pix2vec": 0.0}  # accuracy at equal loss
KEPT = {"conv": 0.9, "mixer": 0.6, "transformer-1": 0.1, "transformer-4": 0.1}
COLOURS = {
    "conv": {"whole": 0.02, "palette": 0.01, "misplaced": 0.5},
    "mixer": {"whole": 0.05, "palette": 0.01, "misplaced": 0.8},
    "transformer-1": {"whole": 0.2, "palette": 0.15, "misplaced": 0.25},
    "transformer-4": {"whole": 0.2, "palette": 0.15, "misplaced": 0.25},
}


@dataclass
class World:
    """Cells, and what was measured of them."""

    cells: list[Cell]
    measured: dict[tuple[tuple[str, str, int], int], dict[str, object]]

    def judge(self) -> dict[str, Finding]:
        return {each.letter: each for each in findings(self.cells, self.measured)}


def world(sign: float = 1.0, seeds: int = 3, noise: float = 1e-4) -> World:
    """As the paper says, with `sign` -1 all the other way round, with a little noise by seed."""
    draw, cells, measured = np.random.default_rng(0), list[Cell](), {}
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
            shares = 0.5 + sign * (accuracies - 0.5) + noise * draw.normal(size=depth + 1)
            best = int(np.argmax(shares))
            layers = tuple(map(float, shares))
            cells.append(Cell(block, encoding, depth, seed, value, layers, layers, best))
            measured[(block, encoding, depth), seed] = {
                "preservation": [sign * KEPT[block] + noise * draw.normal()] * 3,
                "colours": {
                    name: sign * each + noise * draw.normal() for name, each in COLOURS[block].items()
                },
            }
    return World(cells, measured)


LETTERS = [claim.letter for claim in CLAIMS]


def test_there_are_ten_claims() -> None:
    assert list("abcdefghij") == LETTERS


@pytest.mark.parametrize("letter", [each for each in LETTERS if each != "c"])
def test_cells_as_the_paper_says_let_a_claim_hold(letter: str) -> None:
    assert world().judge()[letter].verdict == "holds"


@pytest.mark.parametrize("letter", [each for each in LETTERS if each != "b"])
def test_cells_the_other_way_round_do_not(letter: str) -> None:
    assert world(sign=-1).judge()[letter].verdict == "does not hold"


def test_at_equal_loss_encodings_are_compared_at_equal_loss() -> None:
    """Accuracy falls with loss alike in all, and each encoding has its own level and its own losses."""
    draw, cells = np.random.default_rng(0), list[Cell]()
    for seed in range(3):
        for block, encoding, depth in CELLS:
            loss = LOSS[block] - 0.1 * depth - 0.3 * (encoding == "pix2vec") + 0.01 * draw.normal()
            accuracy = float(0.9 - 0.1 * loss + ENCODING[encoding] + 1e-4 * draw.normal())
            layers = (accuracy,) * (depth + 1)
            cells.append(Cell(block, encoding, depth, seed, float(loss), layers, layers, 0))
    found = World(cells, {}).judge()["c"]
    assert found.verdict == "holds"
    assert [part.mean for part in found.parts] == pytest.approx([1.5, 1.5], abs=0.05)


def test_losses_that_tell_nothing_of_accuracy_have_no_strong_correlation() -> None:
    found = world()
    draw = np.random.default_rng(0)
    found.cells = [cell._replace(loss=float(draw.normal())) for cell in found.cells]
    assert found.judge()["b"].verdict == "does not hold"


@pytest.mark.parametrize("letter", LETTERS)
def test_one_seed_decides_nothing(letter: str) -> None:
    assert world(seeds=1).judge()[letter].verdict == "not decided"


@pytest.mark.parametrize(
    ("missing", "letters"),
    [("mixer", "agij"), ("transformer-1", "ahij"), ("conv", "afij"), ("pix2vec", "cdghi")],
)
def test_missing_cells_leave_a_claim_undecided(missing: str, letters: str) -> None:
    found = world()
    found.cells = [cell for cell in found.cells if missing not in cell.kind]
    verdicts = found.judge()
    assert {letter: verdicts[letter].verdict for letter in letters} == dict.fromkeys(letters, "not decided")


def test_no_cells_decide_nothing() -> None:
    assert {each.verdict for each in World([], {}).judge().values()} == {"not decided"}


def test_a_difference_is_between_networks_that_are_equal_in_all_else() -> None:
    """A block that was made in one encoding alone is compared in that encoding alone."""
    found = world()
    found.cells = [cell for cell in found.cells if cell.block != "mixer" or cell.encoding == "fourier"]
    part = found.judge()["a"].parts[0]
    own = {cell.kind: cell.loss for cell in found.cells if cell.seed == 0 and cell.encoding == "fourier"}
    pairs = [own["mixer", "fourier", depth] - own["conv", "fourier", depth] for depth in (1, 3, 6, 12)]
    assert part.values[0] == pytest.approx(np.mean(pairs))


def test_where_the_papers_depth_is_missing_the_deepest_stands_for_it_and_is_named() -> None:
    found = world()
    found.cells = [cell for cell in found.cells if cell.depth <= 3]
    assert "mixer-3" in found.judge()["g"].parts[0].text


def test_test_images_choose_no_layer_and_no_network() -> None:
    """Validation says layer 4 and the shallowest; test images are the best elsewhere."""
    found = world()
    own = {"conv": (0.0, 0.1, 0.1, 0.1, 0.5, 0.1, 0.1), "others": (0.3, 0.9, 0.2, 0.2, 0.4, 0.2, 0.1)}
    cells = [cell for cell in found.cells if cell.block == "conv" and cell.depth in (1, 6)]
    deep = [
        cell._replace(validations=own["conv"], accuracies=own["others"], best=4)
        for cell in cells
        if cell.depth == 6
    ]
    flat = [
        cell._replace(
            validations=(0.6, 0.6), accuracies=(0.2 + 0.1 * (cell.encoding == "pix2vec"),) * 2, best=0
        )
        for cell in cells
        if cell.depth == 1
    ]
    found.cells = [*deep, *flat]
    last, first = found.judge()["f"].parts
    assert last.values == pytest.approx([30, 30, 30])
    assert first.values == pytest.approx([10, 10, 10])
    assert found.judge()["d"].parts[1].values == pytest.approx([10, 10, 10])


def test_every_layer_is_judged_for_itself() -> None:
    """Layers that are alike but for noise contradict no claim, though the least of them is negative."""
    found, draw = world(), np.random.default_rng(0)

    def shaken(cell: Cell) -> Cell:
        if cell.encoding == "pix2vec":
            return cell
        noise = draw.normal(scale=0.01, size=cell.depth + 1)
        return cell._replace(accuracies=tuple(map(float, 0.5 + noise)))

    found.cells = [shaken(cell) for cell in found.cells]
    layers = [part for part in found.judge()["g"].parts if ", layer " in part.text]
    assert [part.text.partition(":")[0] for part in layers] == [
        f"mixer-6, layer {layer}" for layer in range(7)
    ]
    assert min(part.mean for part in layers) < 0
    assert "does not hold" not in {part.verdict for part in layers}


@pytest.mark.parametrize("letter", LETTERS)
def test_a_seed_that_has_only_begun_changes_no_number(letter: str) -> None:
    found = world()
    before = found.judge()[letter]
    begun = [cell._replace(seed=3, loss=1.0) for cell in found.cells if cell.seed == 0 and cell.depth == 1]
    found.cells = [*found.cells, *begun]
    found.measured |= {(cell.kind, 3): found.measured[cell.kind, 0] for cell in begun}
    assert found.judge()[letter] == before

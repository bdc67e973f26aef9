"""The published settings of Image GPT, by hand, and the checkpoints of figure 3."""

from pathlib import Path

import pytest

from isopix.recipes.published import Value
from isopix.studies.papers import igpt, readers
from isopix.studies.papers.igpt_networks import igpt_network
from isopix.studies.papers.setup import Setup
from isopix.studies.papers.trials import FineTune, LowData, Probe

PAPER = Setup("paper")


@pytest.mark.parametrize("name", ["igpt-s", "igpt-m", "igpt-l", "igpt-l-48", "igpt-xl", "igpt-l-bert"])
def test_learning_rates_of_pre_training_are_those_of_table_5(name: str) -> None:
    rates = {"igpt-s": 0.003, "igpt-m": 0.003, "igpt-l": 0.001, "igpt-l-48": 0.01, "igpt-xl": 0.0003}
    recipe = igpt_network(PAPER, name).recipe
    assert recipe.train.optimizer.lr == (rates | {"igpt-l-bert": 0.001})[name]
    assert recipe.data.rows == {"igpt-l-48": 48, "igpt-xl": 64}.get(name, 32)
    assert recipe.data.source == "imagenet-1k"


def test_probes_of_table_2_are_by_sgd_for_a_million_iterations() -> None:
    trials = [
        cell.trial for row in igpt.table2(PAPER) for cell in row.cells.values() if hasattr(cell, "trial")
    ]
    assert all(isinstance(trial, Probe) for trial in trials)
    assert {(trial.options["method"], trial.options["iterations"]) for trial in trials} == {
        ("sgd", 1_000_000)
    }
    assert [trial.options.get("concat") for trial in trials] == [None] * 4 + [5, 5]


def test_fine_tuning_searches_rates_downwards_and_refits() -> None:
    (cell,) = igpt.table3(PAPER)[0].cells.values()
    trial = cell.trial
    assert isinstance(trial, FineTune)
    assert trial.grid[:3] == (("optimizer.lr=0.001",), ("optimizer.lr=0.0003",), ("optimizer.lr=0.0001",))
    assert (trial.sequential, trial.refit) == (True, True)
    recipe = trial.trainings()[0]
    assert (recipe.train.batch_size, recipe.train.optimizer.beta2, recipe.train.evaluators) == (128, 0.95, ())
    assert recipe.finetune is not None
    assert recipe.finetune.generative_weight == 1.0
    assert recipe.finetune.patience is not None


def test_five_subsets_of_4_25_and_400_images_per_class() -> None:
    (trial, *_) = [cell.trial for row in igpt.table4(PAPER) for cell in row.cells.values()]
    assert isinstance(trial, LowData)
    assert (trial.options["labels"], trial.options["subsets"]) == ([4, 25, 400], 5)


def test_checkpoints_of_figure_3_are_read_from_the_log() -> None:
    """Probes every 65,500 of a million steps: 65K, 131K, 262K, 524K and the last."""
    (probe,) = igpt_network(PAPER, "igpt-s").recipe.train.evaluators
    steps = [*range(0, 1_000_000, probe.every), 1_000_000]
    log = [
        {"step": step, "loss_nats": 3.0 - step / 1e6, "probe_accuracy": step / 2e6, "probe_low": 0.0}
        | {"probe_high": 1.0}
        for step in steps
    ]
    found = [readers.loss_at(multiple)({"log": log}) for multiple in readers.CHECKPOINTS.values()]
    assert found == [Value(3.0 - each / 1e6) for each in (65_500, 131_000, 262_000, 524_000, 1_000_000)]
    assert readers.accuracy_at(None)({"log": log}) == Value(50.0)
    assert readers.accuracy_at(1)({"log": []}) is None


def test_an_existing_run_is_not_trained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        igpt_network(Setup(pretrained={"igpt-l": str(tmp_path / "none")}), "igpt-l")

"""Every protocol fills every cell, from trials in an order in which they can run, with published settings."""

from pathlib import Path

import pytest

from isopix.core.config import to_dict
from isopix.core.overrides import parse
from isopix.recipes import registry
from isopix.recipes.published import Value
from isopix.studies.papers import igpt, vit_patchformer
from isopix.studies.papers.igpt_networks import igpt_network
from isopix.studies.papers.protocol import Setup, find_protocol
from isopix.studies.papers.reproduction import Reproduction
from isopix.studies.papers.trials import FineTune
from tests.golden.values import check_golden, different, leaves
from tests.unit.studies.papers.fakes import TABLES, FakeVerbs

LARGE = dict(leaves(to_dict(registry.find("igpt.l"))))


# The fake logs have no probes, and the fake evaluations no top-5 accuracy.
@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
@pytest.mark.parametrize("name", TABLES)
def test_every_cell_of_a_protocol_is_measured(name: str, scale: str, tmp_path: Path) -> None:
    setup, found = Setup(scale), find_protocol(name)
    with Reproduction.create(tmp_path / "out", setup) as reproduction:
        done = list[str]()
        for trial in found.trials(setup):
            assert {each.name for each in trial.needs} <= set(done)
            assert trial.training_flops() > 0 or not trial.trainings(), "its networks can be built"
            assert reproduction.run(trial, FakeVerbs()).status == "done"
            done.append(trial.name)
        records = reproduction.records(found.trials(setup))
    given = ("data", "options", "settings", "grid", "sequential", "refit")
    trials = {
        each.name: [
            *(each.training_flops(), {key: vars(each)[key] for key in given if key in vars(each)}),
            *(different(dict(leaves(to_dict(recipe))), LARGE) for recipe in each.trainings()[:1]),
        ]
        for each in found.trials(setup)
    }
    rows = [[row.method, row.values(records)] for row in found.rows(setup)]
    published = [[row.method, row.data, row.source, row.cells] for row in found.published]
    check_golden("protocols", f"{name} {scale}", [trials, rows, published])
    for row in found.rows(setup):
        assert set(row.cells) <= set(found.units)
        empty = {column for column, value in row.values(records).items() if value is None}
        lacking = name in ("igpt.figure3", "patchformer.table2")
        assert empty == (set(row.cells) - {"steps"} if lacking else set())
    assert all(set(row.cells) <= set(found.units) for row in found.published)


PAPER = Setup("paper")


def test_every_accuracy_is_read_from_its_own_place(tmp_path: Path) -> None:
    verbs, concat = FakeVerbs(), list(igpt.table2(PAPER))[-1].cells["accuracy"]
    (tmp_path / "test.json").write_text("0.8")
    probe, tuned = verbs.probe(tmp_path, {}), verbs.evaluate(tmp_path, {})
    reads = (igpt.BEST, igpt.LAST, igpt.REFIT, igpt.BEST_OF_ONE, concat.read)
    assert [read(probe).number for read in reads] == pytest.approx([25, 85, 30, 20, 35])
    assert [read(tuned).number for read in (igpt.TUNED, igpt.TUNED_OF_ONE)] == pytest.approx([80, 40])
    few = verbs.few_labels({"labels": [4, 5, 10, 25, 400]})
    shots = [cell.read(few).number for row in vit_patchformer.few_shot(PAPER) for cell in row.cells.values()]
    assert shots == pytest.approx([89.5, 89, 79.5, 79, 69.5, 69])
    errors = [cell.read(few).number for row in igpt.table4(PAPER) for cell in row.cells.values()]
    assert errors == pytest.approx([10.4, 12.5, 50, 20.4, 22.5, 60, 30.4, 32.5, 70, 40.4])


def test_figure_3_probes_cifar_10_or_other_data() -> None:
    for data, source in ((None, "cifar10"), ("imagenet-1k", None), ("stl10", "stl10")):
        setup = Setup("paper", data)
        (probe,) = igpt_network(setup, "igpt-l").recipe.train.evaluators
        assert (probe.source, next(igpt.figure3(setup)).data) == (source, data or "cifar10")


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
def test_settings_of_a_grid_are_compared_on_the_same_validation_images(scale: str) -> None:
    for trial in (each for name in TABLES for each in find_protocol(name).trials(Setup(scale))):
        if isinstance(trial, FineTune):
            given = [(*trial.settings, *words) for words in trial.grid]
            recipes = map(trial.network.finetune_recipe, given)
            fewer = map(registry.affordable_evaluation, recipes, map(parse, given))
            assert len({each.get("evaluate_images") for each in fewer}) == 1, trial.name


def test_checkpoints_of_figure_3_are_read_from_the_log() -> None:
    """Probes every 65,500 of a million steps: 65K, 131K, 262K, 524K and the last."""
    (probe,) = igpt_network(PAPER, "igpt-s").recipe.train.evaluators
    steps = [*range(0, 1_000_000, probe.every), 1_000_000]
    log = [
        {"step": step, "loss_nats": 3.0 - step / 1e6, "probe_accuracy": step / 2e6, "probe_low": 0.0}
        | {"probe_high": 1.0}
        for step in steps
    ]
    losses = [igpt.at_checkpoint(each, lambda point: point.loss) for each in igpt.CHECKPOINTS.values()]
    found = [read(log) for read in losses]
    assert found == [Value(3.0 - each / 1e6) for each in (65_500, 131_000, 262_000, 524_000, 1_000_000)]
    assert losses[0]([]) is None

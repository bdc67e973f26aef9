"""Every protocol fills every cell, from trials in an order in which they can run, with published settings."""

from itertools import product
from pathlib import Path

import pytest

from isopix.core.overrides import parse
from isopix.recipes import published, registry
from isopix.recipes.published import Value
from isopix.studies.papers import igpt, vit_patchformer
from isopix.studies.papers.igpt_networks import igpt_network
from isopix.studies.papers.protocol import Setup, find_protocol, protocols
from isopix.studies.papers.reproduction import Reproduction
from isopix.studies.papers.trials import FineTune
from isopix.train.config import SGD, AdamW, WarmupCosineSchedule
from tests.golden.values import check_golden
from tests.unit.studies.papers.fakes import FakeVerbs


# The fake logs have no probes, and the fake evaluations no top-5 accuracy.
@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
@pytest.mark.parametrize("name", protocols())
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
        each.name: [each.training_flops(), {key: vars(each)[key] for key in given if key in vars(each)}]
        for each in found.trials(setup)
    }
    rows = [[row.method, row.values(records)] for row in found.rows(setup)]
    check_golden("protocols", f"{name} {scale}", [trials, rows])
    for row in found.rows(setup):
        assert set(row.cells) <= set(found.units)
        empty = {column for column, value in row.values(records).items() if value is None}
        lacking = name in ("igpt.figure3", "patchformer.table2")
        assert empty == (set(row.cells) - {"steps"} if lacking else set())
    assert all(set(row.cells) <= set(found.units) for row in found.published)


PAPER = Setup("paper")


def test_every_accuracy_is_read_from_its_own_place(tmp_path: Path) -> None:
    verbs, concat = FakeVerbs(), igpt.table2(PAPER)[-1].cells["accuracy"]
    (tmp_path / "test.json").write_text("0.8")
    probe, tuned = verbs.probe(tmp_path, {}), verbs.evaluate(tmp_path, {})
    reads = (igpt.BEST, igpt.LAST, igpt.REFIT, igpt.BEST_OF_ONE, concat.read)
    assert [read(probe).number for read in reads] == pytest.approx([25, 85, 30, 20, 35])
    assert [read(tuned).number for read in (igpt.TUNED, igpt.TUNED_OF_ONE)] == pytest.approx([80, 40])
    few = verbs.low_data(tmp_path, {"labels": [4, 5, 10, 25, 400]})
    shots = [cell.read(few).number for row in vit_patchformer.few_shot(PAPER) for cell in row.cells.values()]
    assert shots == pytest.approx([89.5, 89, 79.5, 79, 69.5, 69])
    errors = [cell.read(few).number for row in igpt.table4(PAPER) for cell in row.cells.values()]
    assert errors == pytest.approx([10.4, 12.5, 50, 20.4, 22.5, 60, 30.4, 32.5, 70, 40.4])


@pytest.mark.parametrize("name", ["igpt-s", "igpt-m", "igpt-l", "igpt-l-48", "igpt-xl", "igpt-l-bert"])
def test_learning_rates_of_pre_training_are_those_of_table_5(name: str) -> None:
    rates = {"igpt-s": 0.003, "igpt-m": 0.003, "igpt-l": 0.001, "igpt-l-48": 0.01, "igpt-xl": 0.0003}
    recipe = igpt_network(PAPER, name).recipe
    assert recipe.train.optimizer.lr == (rates | {"igpt-l-bert": 0.001})[name]
    assert recipe.data.rows == {"igpt-l-48": 48, "igpt-xl": 64}.get(name, 32)
    assert recipe.data.source == "imagenet-1k"


def test_probes_of_table_2_are_by_sgd_for_a_million_iterations() -> None:
    cells = [cell for row in igpt.table2(PAPER) for cell in row.cells.values()]
    trials = [cell.trial for cell in cells if hasattr(cell, "trial")]
    assert all(trial.verb == "probe" for trial in trials)
    methods = {(trial.options["method"], trial.settings) for trial in trials}
    assert methods == {("sgd", ("iterations=1000000",))}
    assert [trial.options.get("concat") for trial in trials] == [None] * 4 + [5, 5]


def test_probes_of_imagenet_are_by_sgd_as_in_table_2() -> None:
    """Section 3.4; those of CIFAR-10 are by L-BFGS. Figure 4 and table 2 share that of iGPT-L."""
    probes = {(row.method, row.data): row.cells["probe"].trial for row in igpt.figure4(PAPER)}
    found = {data: (trial.options.get("method"), trial.settings) for (_, data), trial in probes.items()}
    assert found == {"cifar10": (None, ()), "imagenet-1k": ("sgd", ("iterations=1000000",))}
    large = next(row for row in igpt.table2(PAPER) if row.network.name == "igpt-l")
    assert probes["autoregressive", "imagenet-1k"] == large.cells["accuracy"].trial


def test_figure_3_probes_cifar_10_or_other_data() -> None:
    for data, source in ((None, "cifar10"), ("imagenet-1k", None), ("stl10", "stl10")):
        setup = Setup("paper", data)
        (probe,) = igpt_network(setup, "igpt-l").recipe.train.evaluators
        assert (probe.source, igpt.figure3(setup)[0].data) == (source, data or "cifar10")


def test_training_from_scratch_drops_out_in_the_network() -> None:
    scratch = igpt.imagenet_finetuning(PAPER)[-1].cells["accuracy"].trial.trainings()[0]
    block = scratch.model.block
    assert (scratch.model.embedding_dropout, block.dropout, block.attention_dropout) == (0.1, 0.1, 0.1)


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
def test_settings_of_a_grid_are_compared_on_the_same_validation_images(scale: str) -> None:
    for trial in (each for found in protocols().values() for each in found.trials(Setup(scale))):
        if isinstance(trial, FineTune):
            given = [(*trial.settings, *words) for words in trial.grid]
            recipes = map(trial.network.finetune_recipe, given)
            changed = map(registry.with_affordable_evaluation, recipes, map(parse, given))
            assert len({recipe.train.evaluate_images for recipe in changed}) == 1, trial.name


def test_fine_tuning_searches_rates_downwards_and_refits() -> None:
    (cell,) = igpt.table3(PAPER)[0].cells.values()
    trial = cell.trial
    assert isinstance(trial, FineTune)
    assert trial.grid[:3] == (("optimizer.lr=0.001",), ("optimizer.lr=0.0003",), ("optimizer.lr=0.0001",))
    assert (trial.sequential, trial.refit) == (True, True)
    recipe = trial.trainings()[0]
    assert (recipe.train.batch_size, recipe.train.optimizer.beta2, recipe.train.evaluators) == (128, 0.95, ())
    assert recipe.finetune.generative_weight == 1.0


def test_five_subsets_of_4_25_and_400_images_per_class() -> None:
    (trial, *_) = [cell.trial for row in igpt.table4(PAPER) for cell in row.cells.values()]
    assert trial.verb == "low-data"
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
    losses = [igpt.at_checkpoint(each, lambda point: point.loss) for each in igpt.CHECKPOINTS.values()]
    found = [read(log) for read in losses]
    assert found == [Value(3.0 - each / 1e6) for each in (65_500, 131_000, 262_000, 524_000, 1_000_000)]
    assert losses[0]([]) is None


def test_fine_tuning_is_as_published() -> None:
    """SGD, momentum 0.9, batch size 512, cosine decay, gradient norm 1, 384 pixels, and the classes alone."""
    trial = next(cell.trial for row in vit_patchformer.finetuning(PAPER) for cell in row.cells.values())
    assert isinstance(trial, FineTune)
    assert [words[0] for words in trial.grid] == [f"optimizer.lr={lr}" for lr in (0.003, 0.01, 0.03, 0.06)]
    recipe = trial.trainings()[0]
    assert recipe.train.optimizer == SGD(lr=0.003, momentum=0.9)
    assert recipe.train.schedule == WarmupCosineSchedule(warmup_epochs=0.0)
    assert (recipe.train.max_grad_norm, recipe.train.batch_size, recipe.train.steps) == (1.0, 512, 20_000)
    assert (recipe.data.rows, recipe.data.cols, recipe.data.source) == (384, 384, "imagenet-1k")
    assert (recipe.finetune.generative_weight, recipe.finetune.pool) == (0.0, "first")
    assert recipe.finetune.patience is None
    assert trial.refit


def test_published_tables_say_what_was_pre_trained_on_imagenet_and_how() -> None:
    """Table 3's ticks are in the two columns unsupervised and supervised transfer; AutoAugment has none."""
    found = {row.method: row.cells["transfer from ImageNet"].value for row in published.IGPT_TABLE_3}
    assert (found["iGPT-L"], found["GPipe"], found["AutoAugment"]) == ("unsupervised", "supervised", "none")
    assert {row.source for row in published.VIT_SELF_SUPERVISED} == {"section 4.6"}


def test_few_shot_reads_the_class_token_after_the_last_block() -> None:
    trial = next(cell.trial for row in vit_patchformer.few_shot(PAPER) for cell in row.cells.values())
    options = trial.options
    assert (options["method"], options["layer"], options["pool"]) == ("ridge", 12, "first")


def test_every_batch_size_and_rate_is_tried_with_every_fraction_of_the_labels() -> None:
    """Section 2.2: batch sizes {16, 32, 64, 128, 256}, learning rates {3e-5, 2e-4, 4e-4, 1e-3}."""
    (row,) = vit_patchformer.top_1(PAPER)
    tried = set()
    for cell in row.cells.values():
        (fraction,) = (word for word in cell.trial.settings if word.startswith("data.labels_per_class="))
        for size, lr in cell.trial.grid:
            tried.add((fraction[22:], int(size[11:]), float(lr[13:])))
    fractions, sizes = ("1%", "10%", "20%"), (16, 32, 64, 128, 256)
    assert tried == set(product(fractions, sizes, (3e-5, 2e-4, 4e-4, 1e-3)))
    trial = row.cells["1% of the labels"].trial
    recipe = trial.network.finetune_recipe((*trial.settings, *trial.grid[0]))
    assert (recipe.data.labels_per_class, recipe.train.batch_size) == ("1%", 16)
    assert recipe.train.optimizer == AdamW(lr=3e-5)
    assert (recipe.finetune.mask_ratio, recipe.finetune.label_smoothing) == (0.1, 0.01)

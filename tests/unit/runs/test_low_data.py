"""Low-data evaluation of a run: the same subsets for probes and for fine-tuning, without test images."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.data.dataset import load_dataset
from isopix.probing.config import LowDataConfig, ProbeConfig
from isopix.probing.linear import RidgeProbe
from isopix.probing.low_data import label_subsets, probe_low_data
from isopix.recipes import registry
from isopix.runs.load import LoadedRun, load_run
from isopix.runs.low_data import finetune_low_data, prepare_low_data
from isopix.runs.pretrain import train_recipe
from isopix.runs.start import TrainingStart
from isopix.runs.training_log import RunObserver
from isopix.storage.atomic import read_json
from isopix.storage.checkpoint import load_checkpoint
from isopix.storage.run_folder import RunFolder

CPU = torch.device("cpu")
WORDS = [
    *("depth=1", "width=16", "batch_size=8", "steps=2", "data.limit=200"),
    *("num_test_images=30", "evaluate_images=30"),
]
FEW = LowDataConfig(labels=(1, 3), subsets=2, finetune_steps=1)
QUICK = ProbeConfig(num_resamples=10)
RIDGE = RidgeProbe()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    recipe = registry.resolve("igpt.digits", assignments=WORDS).recipe
    train_recipe(recipe, out, device=CPU, observer=RunObserver())
    return out


@pytest.fixture
def loaded(run: Path) -> LoadedRun:
    found = load_run(run, device=CPU)
    found.network.eval()
    return found


def start_of(run: Path, loaded: LoadedRun, *words: str) -> TrainingStart:
    return prepare_low_data(RunFolder(run), ("data.augment=none", *words), FEW, loaded.recipe.data, 180)


def folder_of(out: Path, labels: int, subset: int) -> Path:
    [folder] = out.glob(f"*/labels-{labels}-subset-{subset}")
    return folder


def test_each_source_of_features_has_each_number_of_labels(loaded: LoadedRun) -> None:
    data = load_dataset(loaded.recipe.data)
    sources = loaded.feature_sources(data, QUICK, "fp32")
    found = probe_low_data(sources, data, FEW, RIDGE, seed=0, device=CPU)
    assert list(found) == ["trained", "untrained", "raw pixels", "raw pixels, PCA"]
    for each in found.values():
        counts = [(one.labels_per_class, one.num_train_images, len(one.errors)) for one in each]
        assert counts == [(1, 10, 2), (3, 30, 2)]
    features = {name: each[0].num_features for name, each in found.items()}
    assert features == {"trained": 16, "untrained": 16, "raw pixels": 192, "raw pixels, PCA": 16}


def test_fine_tuning_learns_from_the_same_subsets(run: Path, loaded: LoadedRun, tmp_path: Path) -> None:
    data = load_dataset(loaded.recipe.data)
    subsets = label_subsets(data.train.labels, (1, 3), 2, loaded.recipe.train.seed)
    start, weights = start_of(run, loaded), loaded.network.tensors()
    [one, three] = finetune_low_data(start, FEW, tmp_path, CPU)
    assert (one.num_train_images, three.num_train_images) == (10, 30)
    assert one.num_test_images == len(data.test) == 180
    for count, drawn in subsets.items():
        for number, index in enumerate(drawn):
            recipe = load_run(folder_of(tmp_path, count, number), device=CPU).recipe
            subset = load_dataset(recipe.data).train
            first = load_checkpoint(folder_of(tmp_path, count, number) / "checkpoints/step-00000000")
            assert all(torch.equal(first.tensors["model"][name], each) for name, each in weights.items())
            assert torch.equal(subset.images, data.train.images[index])
    assert finetune_low_data(start, FEW, tmp_path, CPU) == (one, three)
    kept = read_json(folder_of(tmp_path, 1, 0) / "environment.json")["pretrained"]
    assert kept == {"run": str(run), "step": 2}


def test_runs_of_other_settings_or_of_another_step_are_not_taken_for_these(
    run: Path, loaded: LoadedRun, tmp_path: Path
) -> None:
    one = replace(FEW, labels=(1,), subsets=1)
    start = start_of(run, loaded)
    finetune_low_data(start, one, tmp_path, CPU)
    earlier = start.initial._replace(provenance={"pretrained": {"run": str(run), "step": 1}})
    for other in (start_of(run, loaded, "batch_size=4"), start._replace(initial=earlier)):
        before = set(tmp_path.iterdir())
        finetune_low_data(other, one, tmp_path, CPU)
        assert len(set(tmp_path.iterdir()) - before) == 1


def test_the_images_are_those_that_are_probed(run: Path, loaded: LoadedRun) -> None:
    with pytest.raises(ValueError, match="cannot be set here: fine-tuning uses the images"):
        start_of(run, loaded, "data.limit=20")

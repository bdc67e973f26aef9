"""Few labels of a run: the same subsets for features and for fine-tuning, none of them a test image."""

import shutil
from pathlib import Path

import pytest
import torch

from isopix.data.dataset import load as load_images
from isopix.probe.results import Protocol
from isopix.recipes import registry
from isopix.runs.load import Loaded, load_run
from isopix.runs.low_data import Question, Tuning, by_features, by_finetuning, tuning
from isopix.runs.pretrain import pretrain
from isopix.runs.training import RunObserver
from isopix.storage import checkpoint
from isopix.storage.atomic import read_json
from isopix.storage.run_folder import RunFolder

CPU = torch.device("cpu")
WORDS = [
    "depth=1",
    "width=16",
    "batch_size=8",
    "steps=2",
    "data.limit=200",
    "num_test_images=30",
    "evaluate_images=30",
]
QUESTION = Question((1, 3), 2)
QUICK = Protocol(strengths=(0.1,), weaker=(), resamples=10)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    pretrain(
        registry.resolve("igpt.digits", assignments=WORDS).recipe, out, device=CPU, observer=RunObserver()
    )
    return out


@pytest.fixture
def loaded(run: Path) -> Loaded:
    found = load_run(run, device=CPU)
    found.network.eval()
    return found


def tuned(run: Path, loaded: Loaded, out: Path, *words: str) -> Tuning:
    settings = ("steps=1", "data.augment=none", *words)
    return tuning(run, settings, images=loaded.recipe.data, tested=180, out=out, device=CPU)


def folder_of(out: Path, labels: int, subset: int) -> Path:
    [folder] = out.glob(f"labels-{labels}-subset-{subset}-*")
    return folder


def test_each_source_of_features_has_each_number_of_labels(loaded: Loaded) -> None:
    data = load_images(loaded.recipe.data, seed=loaded.recipe.train.seed)
    shares: list[float] = []
    found = by_features(loaded, data, QUESTION, precision="fp32", protocol=QUICK, progress=shares.append)
    assert list(found) == ["trained", "untrained", "raw pixels"]
    for each in found.values():
        assert [(few.labels, few.images, len(few.errors)) for few in each] == [(1, 10, 2), (3, 30, 2)]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_fine_tuning_learns_from_the_same_subsets(run: Path, loaded: Loaded, tmp_path: Path) -> None:
    data = load_images(loaded.recipe.data, seed=loaded.recipe.train.seed)
    draws = QUESTION.draws(data.train.labels, loaded.recipe.train.seed)
    how = tuned(run, loaded, tmp_path)
    records = []
    [one, three] = by_finetuning(how, QUESTION, RunObserver(records.append))
    assert (one.images, three.images) == (10, 30)
    assert one.tested == len(data.test) == 180
    for count, drawn in draws.items():
        for number, index in enumerate(drawn):
            recipe = load_run(folder_of(tmp_path, count, number), device=CPU).recipe
            subset = load_images(recipe.data, seed=recipe.train.seed).train
            assert torch.equal(subset.images, data.train.images[index])
    tested = len(records)
    assert by_finetuning(how, QUESTION, RunObserver(records.append)) == [one, three]
    assert not [each for each in records[tested:] if each["kind"] != "note"], "what is there is read"
    kept = read_json(folder_of(tmp_path, 1, 0) / "environment.json")["pretrained"]
    assert kept == {"run": str(run), "step": 2}


def test_runs_of_other_settings_or_of_another_step_are_not_taken_for_these(
    run: Path, loaded: Loaded, tmp_path: Path
) -> None:
    one = Question((1,), 1)
    how = tuned(run, loaded, tmp_path)
    by_finetuning(how, one, RunObserver())
    for other in (
        tuned(run, loaded, tmp_path, "batch_size=4"),
        how._replace(initial=how.initial._replace(provenance={"pretrained": {"run": str(run), "step": 1}})),
    ):
        before = set(tmp_path.iterdir())
        by_finetuning(other, one, RunObserver())
        assert len(set(tmp_path.iterdir()) - before) == 1


def test_every_subset_starts_from_the_weights_of_the_run(run: Path, loaded: Loaded, tmp_path: Path) -> None:
    by_finetuning(tuned(run, loaded, tmp_path, "lr=0.1"), QUESTION, RunObserver())
    weights = loaded.network.tensors()
    for folder in tmp_path.iterdir():
        first = checkpoint.load(folder / "checkpoints/step-00000000").tensors["model"]
        assert all(torch.equal(first[name], tensor) for name, tensor in weights.items())


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("evaluate_images=0", "is selected on validation images; set evaluate_images above 0"),
        ("layer=2", "finetune.layer 2 does not exist"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_read(
    run: Path, loaded: Loaded, tmp_path: Path, word: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tuned(run, loaded, tmp_path, word)


@pytest.mark.parametrize(
    "word", ["seed=1", "data.limit=20", "data.holdout=0.2", "data.fold_back=true", "data={source: cifar10}"]
)
def test_the_images_are_those_that_are_probed(run: Path, loaded: Loaded, tmp_path: Path, word: str) -> None:
    with pytest.raises(ValueError, match="cannot be set here: fine-tuning is judged on the images"):
        tuned(run, loaded, tmp_path, word)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question((0,), 2), "allowed: numbers from 1 on"),
        (Question((), 2), "allowed: numbers from 1 on"),
        (Question((4,), 0), "allowed: numbers from 1 on"),
        (Question((4, 4), 1), "allowed: each number once"),
        (Question((100,), 1), "100 images of each class asked for; class 0 has"),
    ],
)
def test_impossible_questions_are_refused(loaded: Loaded, question: Question, message: str) -> None:
    data = load_images(loaded.recipe.data, seed=loaded.recipe.train.seed)
    with pytest.raises(ValueError, match=message):
        by_features(loaded, data, question, precision="fp32", protocol=Protocol())


def test_what_a_kill_left_before_the_first_checkpoint_is_no_obstacle(
    run: Path, loaded: Loaded, tmp_path: Path
) -> None:
    how = tuned(run, loaded, tmp_path)
    [one] = by_finetuning(how, Question((1,), 1), RunObserver())
    folder = folder_of(tmp_path, 1, 0)
    shutil.rmtree(folder)
    RunFolder.create(folder)
    assert by_finetuning(how, Question((1,), 1), RunObserver()) == [one]

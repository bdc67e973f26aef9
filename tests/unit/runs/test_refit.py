"""Refitting: the step is selected without test images, and the run trains as long on all others."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import isopix
from isopix.runs.load import load_run
from isopix.runs.resume import check_selects_step, select_step, train_selected
from isopix.runs.start import prepare_finetune
from isopix.runs.state import RunStatus
from isopix.runs.training_log import RunObserver
from isopix.storage import atomic
from isopix.storage.run_folder import RunFolder
from tests.trained import CPU, SILENT, different_weights, logged, train

SMALL = ["depth=1", "width=16", "batch_size=16", "log_every=1", "evaluate_images=60", "num_test_images=60"]
QUICK = ["steps=12", "evaluate_every=2", "checkpoint_every=2", "data.augment=none", "data.limit=100"]
SELECTION = "step chosen on 60 validation images"
WORDS = [*QUICK, "lr=0.03", "generative_weight=0.1", "evaluate_images=60", "num_test_images=null"]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "pre"
    return train("igpt.digits_bert", out, *SMALL, "steps=4").run.path


def refit(
    source: object, out: Path, *words: str, observer: RunObserver = SILENT, from_scratch: bool = False
) -> RunStatus:
    start = prepare_finetune(str(source), [*WORDS, *words], from_scratch=from_scratch)
    check_selects_step(start.recipe)
    return train_selected(select_step, start, out, CPU, observer)


@pytest.fixture(scope="module")
def whole(pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("refit") / "ft"
    assert refit(pretrained, out).finished
    return out


def test_the_run_itself_trains_for_the_best_step_on_validation(whole: Path) -> None:
    seen = {each["step"]: each["accuracy"] for each in logged(whole / "selection", split="validation")}
    step = max(seen, key=lambda each: (seen[each], -each))
    environment = json.loads((whole / "environment.json").read_text())
    run = str(whole.resolve() / "selection")
    assert 0 < step < 12
    record = environment["selected"].pop("measurement")
    assert environment["selected"] == {"step": step, "validation_accuracy": seen[step], "run": run}
    assert (record["split"], record["images"], record["labels_seen"]) == ("validation", 60, 100)
    assert environment["images"] == {"train": 200, "validation": 0, "test": 100}
    assert max(each["step"] for each in logged(whole)) == step
    notes = [each["text"] for each in logged(whole, kind="note")]
    assert any(note.startswith(f"step {step} selected on validation, accuracy ") for note in notes)


def test_it_is_the_run_of_that_many_steps_on_train_and_validation(
    pretrained: Path, whole: Path, tmp_path: Path
) -> None:
    """From the same weights, with the same settings, and nothing selected."""
    step = json.loads((whole / "environment.json").read_text())["selected"]["step"]
    words = [*WORDS, "data.train_on_validation=true", f"steps={step}", "patience=null"]
    train(prepare_finetune(str(pretrained), settings=words), tmp_path / "plain")
    assert different_weights(tmp_path / "plain", whole) == []
    [plain], [found] = (logged(run, split="test") for run in (tmp_path / "plain", whole))
    assert (plain["selection_images"], found["selection_images"]) == (0, 60)
    assert found["measurement"] == plain["measurement"] | {"selection": SELECTION}
    assert plain == found | {"selection_images": 0, "measurement": plain["measurement"]}


@pytest.mark.integration
def test_killed_at_any_moment_the_same_call_continues_to_the_same_weights(
    pretrained: Path, whole: Path, tmp_path: Path
) -> None:
    out, found = tmp_path / "ft", list[Path]()

    def keep(record: object) -> None:
        """Keep what a kill would leave of the folder at this line of a log."""
        found.append(shutil.copytree(out, tmp_path / str(len(found))))

    assert refit(pretrained, out, observer=RunObserver(record=keep)).finished
    bare = [each for each in found if not RunFolder(each / "selection").has_checkpoints]
    own = [each for each in found if (each / "recipe.json").is_file()]
    unsaved = [each for each in own if not RunFolder(each).has_checkpoints]
    for left in (bare[0], found[len(found) // 2], unsaved[0], own[-1]):
        shutil.rmtree(out)
        shutil.copytree(left, out)
        atomic._sweep_once.cache_clear()  # as in a new process
        assert refit(pretrained, out).finished
        assert different_weights(out, whole) == []
        assert different_weights(out / "selection", whole / "selection") == []
        assert logged(out, split="test") == logged(whole, split="test")


def test_the_same_call_has_finished_and_another_is_refused(pretrained: Path, whole: Path) -> None:
    assert refit(pretrained, whole).finished
    with pytest.raises(ValueError, match=r"run .*selection has train.optimizer.lr=.*, not 0.5; choose"):
        refit(pretrained, whole, "lr=0.5")
    with pytest.raises(ValueError, match="out is the source run"):
        isopix.finetune(pretrained, *WORDS, refit_on_validation=True, out=pretrained, device="cpu")


def test_from_scratch_the_palette_of_the_selection_is_used(tmp_path: Path) -> None:
    """It is part of the weights that both start from, and had been fitted without validation images."""
    draw, labels = np.random.default_rng(0), np.arange(60) % 2
    pixels = draw.integers(0, 128, (60, 8, 8, 3)) + 127 * labels[:, None, None, None]
    np.savez(tmp_path / "set.npz", x_train=pixels.astype(np.uint8), y_train=labels)
    words = [*SMALL, "steps=20", "evaluate_every=5", f"data.source={tmp_path / 'set.npz'}", "batch_size=16"]
    words += ["codec.num_colors=8", "data.rows=8", "data.cols=8", "lr=0.01"]
    assert refit("igpt.translated_digits", tmp_path / "ft", *words, from_scratch=True).finished
    codecs = [load_run(tmp_path / "ft" / name, device=CPU).network.codec for name in ("", "selection")]
    assert codecs[0].fingerprint() == codecs[1].fingerprint()


def test_without_a_step_better_than_step_0_nothing_is_refit_or_tested(
    pretrained: Path, tmp_path: Path
) -> None:
    for _ in range(2):  # nor is the selection repeated
        with pytest.raises(RuntimeError, match=r"no step has a better validation accuracy than step 0 \("):
            refit(pretrained, tmp_path / "ft", "generative_weight=0", "lr=1e-60", "patience=2")
    assert not (tmp_path / "ft/log.jsonl").exists()
    assert logged(tmp_path / "ft/selection", split="test") == []


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("data.train_on_validation=true", "data.train_on_validation=true leaves none"),
        ("patience=null", "patience=null or generative_weight=inf selects none"),
        ("data.labels_per_class=4", "data.labels_per_class=4 on a subset"),
        ("data.holdout=0", "chosen by validation images, and dataset 'digits' has none"),
        ("evaluate_images=0", "selected on validation images; set evaluate_images above 0"),
    ],
)
def test_settings_without_a_selection_are_refused(
    pretrained: Path, tmp_path: Path, word: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        refit(pretrained, tmp_path / "ft", word)
    assert not [*tmp_path.rglob("ft/*")]

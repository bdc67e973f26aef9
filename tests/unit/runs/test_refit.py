"""Folding back: the step is chosen without the test images, and the run itself goes as far with all."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs import pretrain as running
from isopix.runs.finetune import begin
from isopix.runs.load import load
from isopix.runs.pretrain import Outcome, Watch, resume, start
from isopix.runs.refit import fold_back
from isopix.storage import checkpoint, log
from isopix.storage.atomic import write_json
from isopix.storage.run_folder import RunFolder

CPU = torch.device("cpu")
SMALL = ["depth=1", "width=16", "batch=16", "log_every=1", "evaluate_images=60", "test_images=60"]
QUICK = ["steps=12", "evaluate_every=2", "checkpoint_every=2", "data.augment=none", "data.limit=100"]
SILENT = Watch()
WORDS = [*QUICK, "optimiser.learning_rate=0.03", "generative_weight=0.1"]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "pre"
    recipe = registry.resolve("igpt.digits_bert", assignments=[*SMALL, "steps=4"]).recipe
    start(recipe, out, device=CPU, watch=Watch())
    return out


def fold(source: object, out: Path, *words: str, watch: Watch = SILENT) -> Outcome:
    @contextmanager
    def watching(recipe: Recipe) -> Iterator[Watch]:
        yield watch

    beginning = partial(begin, str(source), assignments=[*WORDS, *words])
    return fold_back(beginning, out, device=CPU, watching=watching)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found = checkpoint.load_latest(RunFolder(folder).checkpoints).checkpoint
    assert found is not None
    return {f"{group}.{name}": each for group in found.tensors for name, each in found.tensors[group].items()}


def same(one: Path, other: Path) -> bool:
    ours, theirs = weights(one), weights(other)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def of_test(folder: Path) -> list[dict[str, object]]:
    return [each for each in log.read_log(folder / "log.jsonl") if each.get("split") == "test"]


@pytest.fixture(scope="module")
def whole(pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fold") / "ft"
    assert fold(pretrained, out).finished
    return out


def test_the_best_step_on_validation_is_how_long_the_run_itself_learns(whole: Path) -> None:
    seen = {
        each["step"]: each["accuracy"]
        for each in log.read_log(whole / "selection/log.jsonl")
        if each.get("split") == "validation"
    }
    step = max(seen, key=lambda each: (seen[each], -each))
    told = json.loads((whole / "environment.json").read_text())
    run = str(whole.resolve() / "selection")
    assert 0 < step < 12
    assert told["chosen"] == {"step": step, "validation_accuracy": seen[step], "run": run}
    assert told["images"] == {"train": 200, "validation": 0, "test": 100}
    records = log.read_log(whole / "log.jsonl")
    assert max(each["step"] for each in records) == step
    notes = [each["text"] for each in records if each["kind"] == "note"]
    assert any(note.startswith(f"validation chose step {step}, with an accuracy of") for note in notes)


def test_the_test_images_are_judged_once_and_not_by_the_choice(whole: Path) -> None:
    assert of_test(whole / "selection") == []
    assert "majority" not in json.loads((whole / "selection/environment.json").read_text())
    assert [each["images"] for each in of_test(whole)] == [60]
    before = (whole / "log.jsonl").read_bytes()
    assert resume(whole, device=CPU, watch=Watch()).finished
    assert (whole / "log.jsonl").read_bytes() == before


def test_it_is_the_run_of_so_many_steps_on_all_images(pretrained: Path, whole: Path, tmp_path: Path) -> None:
    """From the same weights, with the same settings, and nothing chosen."""
    step = json.loads((whole / "environment.json").read_text())["chosen"]["step"]
    words = [*WORDS, "data.train_on_validation=true", f"steps={step}", "patience=null"]
    recipe, origin = begin(str(pretrained), assignments=words)
    start(recipe, tmp_path / "plain", device=CPU, watch=Watch(), origin=origin)
    assert same(tmp_path / "plain", whole)
    assert of_test(tmp_path / "plain") == of_test(whole)


class After:
    """Asks to stop after so many steps."""

    def __init__(self, steps: int):
        self.left = steps

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_stopped_at_any_step_the_same_call_goes_on_to_the_same_weights(
    pretrained: Path, whole: Path, tmp_path: Path
) -> None:
    out, calls = tmp_path / "ft", 1
    while not fold(pretrained, out, watch=Watch(stop=After(4))).finished:
        calls += 1
    assert calls > 3
    assert same(out, whole)
    assert same(out / "selection", whole / "selection")
    assert of_test(out) == of_test(whole)


def moments(pretrained: Path, out: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What a kill would leave of the folder at every line of a log and around each of the files before it."""
    found: list[Path] = []

    def keep(*ignored: object) -> None:
        found.append(shutil.copytree(out, kept / str(len(found))))

    def written(path: Path, values: dict[str, object]) -> None:
        write_json(path, values)
        keep()

    monkeypatch.setattr(running, "write_json", written)
    assert fold(pretrained, out, watch=Watch(record=keep)).finished
    monkeypatch.undo()
    return found


def test_killed_at_any_moment_the_same_call_goes_on_to_the_same_weights(
    pretrained: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "ft"
    found = moments(pretrained, out, tmp_path, monkeypatch)
    bare = [each for each in found if not RunFolder(each / "selection").has_checkpoints]
    own = [each for each in found if (each / "recipe.json").is_file()]
    unsaved = [each for each in own if not RunFolder(each).has_checkpoints]
    assert bare
    assert unsaved
    for left in (bare[0], found[len(found) // 2], unsaved[0], own[-1]):
        shutil.rmtree(out)
        shutil.copytree(left, out)
        assert fold(pretrained, out).finished
        assert same(out, whole)
        assert same(out / "selection", whole / "selection")
        assert of_test(out) == of_test(whole)


def test_before_the_run_itself_exists_every_verb_names_the_command(
    pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["isopix", "finetune", "pre", "--out", "my run", "--fold-back"])
    fold(pretrained, tmp_path / "ft", watch=Watch(stop=lambda: True))
    with pytest.raises(ValueError, match=r"has no checkpoints yet.* finetune pre --out 'my run' --fold-back$"):
        resume(tmp_path / "ft", device=CPU, watch=Watch())


def test_from_scratch_the_palette_of_the_choice_is_kept(tmp_path: Path) -> None:
    """It is part of the weights that both start from, and had been fitted without validation images."""
    draw, labels = np.random.default_rng(0), np.arange(60) % 2
    pixels = draw.integers(0, 128, (60, 8, 8, 3)) + 127 * labels[:, None, None, None]
    np.savez(tmp_path / "set.npz", x_train=pixels.astype(np.uint8), y_train=labels)
    words = [*SMALL, "steps=20", "evaluate_every=5", f"data.source={tmp_path / 'set.npz'}", "batch=16"]
    words += ["codec.num_colors=8", "data.rows=8", "data.cols=8", "optimiser.learning_rate=0.01"]
    assert fold("igpt.tiny", tmp_path / "ft", *words).finished
    codecs = [load(tmp_path / "ft" / name, device=CPU).network.codec for name in ("", "selection")]
    assert codecs[0].fingerprint() == codecs[1].fingerprint()


def test_a_chosen_step_of_none_at_all_is_refused_and_test_stays_unseen(
    pretrained: Path, tmp_path: Path
) -> None:
    for _ in range(2):  # nor is the choice made again
        with pytest.raises(RuntimeError, match=r"no step was better on validation than none at all \("):
            fold(
                pretrained,
                tmp_path / "ft",
                "generative_weight=0",
                "optimiser.learning_rate=1e-60",
                "patience=2",
            )
    assert not (tmp_path / "ft/log.jsonl").exists()
    assert of_test(tmp_path / "ft/selection") == []


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "data.train_on_validation=true",
            "data.train_on_validation=true leaves none to choose by; give one of the two",
        ),
        ("patience=null", "patience=null or generative_weight=inf choose none"),
        ("generative_weight=inf", "patience=null or generative_weight=inf choose none"),
        ("data.labels_per_class=4", "data.labels_per_class=4 from few"),
        ("data.holdout=0", "chosen by validation images, and dataset 'digits' has none"),
        ("evaluate_images=0", "chosen by validation images; it needs evaluate_images above 0"),
    ],
)
def test_what_leaves_nothing_to_choose_is_refused(
    pretrained: Path, tmp_path: Path, word: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fold(pretrained, tmp_path / "ft", word)
    assert not (tmp_path / "ft").exists()


def test_another_command_does_not_go_on_with_it(pretrained: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has batch=16, and 8 is asked for; choose another --out"):
        fold(pretrained, whole, "batch=8")
    with pytest.raises(ValueError, match=r"has pretrained\.run="):
        fold(whole, whole, "optimiser.learning_rate=0.03")
    (tmp_path / "mine").write_text("mine")
    for taken in (tmp_path, pretrained):
        with pytest.raises(ValueError, match="is not empty"):
            fold(pretrained, taken)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]

"""A run evaluates the images that it records, and its checkpoints hold the state of their step."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.codecs import kmeans, palette_spec
from isopix.core.types import Images
from isopix.data.load import load_dataset
from isopix.recipes import registry
from isopix.runs import state
from isopix.runs.load import load_run
from isopix.runs.pretrain import fit_codec
from isopix.runs.training_log import RunObserver
from isopix.storage import checkpoint
from isopix.train.evaluator import measure_baselines
from tests.trained import CPU, StopAt, logged, resume, train

WORDS = ["depth=1", "width=16", "steps=8", "batch_size=16", "log_every=1", "evaluate_images=40"]
WORDS += ["num_test_images=50"]
Fit = tuple[int, int, int]  # number of images, of colors, and the seed


def test_a_run_with_a_palette_file_records_where_its_colors_come_from(tmp_path: Path) -> None:
    file = tmp_path / "grays.npz"
    colors = torch.linspace(0, 255, 17).round()[:, None].expand(17, 3).contiguous()
    palette_spec.write_palette(file, palette_spec.PaletteFile(colors, "seventeen grays"))
    words = [*WORDS, f"codec.palette_file={file}", "steps=1"]
    train("igpt.digits", tmp_path / "run", *words)
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["codec"]["palette"] == {"file": str(file), "source": "seventeen grays"}


def test_baselines_are_logged_once_on_the_images_of_the_losses(tmp_path: Path) -> None:
    recipe, folder = registry.resolve("igpt.digits_bert", settings=WORDS).recipe, tmp_path / "run"
    train(recipe, folder, observer=RunObserver(stop=StopAt(3)))
    resume(folder)
    baselines = logged(folder, kind="baselines")
    measured = [(each["held_out"], each["images"], each["step"]) for each in baselines]
    assert measured == [("validation", 40, 0), ("test", 50, 0)]
    data, loaded = load_dataset(recipe.data), load_run(folder, device=CPU)
    held_out = {"validation": data.validation.sample(40), "test": data.test.sample(50)}
    found = measure_baselines(loaded.model, recipe.model.head, data.train, held_out, seed=recipe.train.seed)
    assert [each["nats"] for each in baselines] == [found["validation"]["nats"], found["test"]["nats"]]
    assert list(loaded.modes) == baselines[1]["modes"]


@pytest.fixture
def fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Fit]:
    """What palettes are fitted to from now on, with an empty cache."""
    fitted, fit = list[Fit](), kmeans.fit_palette

    def counted(images: Images, num_colors: int, *, seed: int) -> object:
        fitted.append((len(images), num_colors, seed))
        return fit(images, num_colors, seed=seed)

    monkeypatch.setattr(kmeans, "fit_palette", counted)
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path / "cache"))
    return fitted


def test_images_with_fewer_colors_give_a_smaller_palette_of_which_the_run_speaks(
    fits: list[Fit], tmp_path: Path
) -> None:
    np.savez(tmp_path / "gray.npz", x_train=np.arange(40 * 64, dtype=np.uint16).reshape(40, 8, 8) % 30)
    words = [*WORDS, "steps=1", "codec.num_colors=512", "data.white=255", f"data.source={tmp_path}/gray.npz"]
    for name in ("fitted", "cached"):
        path = train("igpt.digits", tmp_path / name, *words).run.path
        assert '"num_colors": 30' in (path / "recipe.json").read_text()
        assert "for a 512-color palette; a 30-color palette is used" in (path / "log.jsonl").read_text()
    assert len(fits) == 1
    np.savez(tmp_path / "gray.npz", x_train=np.zeros((40, 8, 8), np.uint8))
    with pytest.raises(ValueError, match="all pixels of the training images have one color"):
        train("igpt.digits", tmp_path / "black", *words, "data.holdout=0")


def test_a_file_of_another_content_is_written_again(fits: list[Fit], tmp_path: Path) -> None:
    recipe = registry.find("igpt.digits")
    data = load_dataset(recipe.data)
    right = fit_codec(recipe, data)
    [path] = (tmp_path / "cache/codecs").glob("*/codec.safetensors")
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])  # one bit
    assert [fit_codec(recipe, data).fingerprint() for _ in range(2)] == [right.fingerprint()] * 2
    assert len(fits) == 2


SAVING = ["depth=1", "width=16", "steps=9", "batch_size=4", "checkpoint_every=2", "data.limit=64"]
SAVING += ["evaluate_images=8", "num_test_images=8", "log_every=1"]


def folders(run: Path) -> dict[str, bytes]:
    paths = run.glob("checkpoints/step-*/*.safetensors")
    return {str(path.relative_to(run)): path.read_bytes() for path in paths}


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A disk that writes no checkpoint after step 0 until the event is set."""
    ready, save = threading.Event(), checkpoint.save_checkpoint

    def save_later(folder, *content):
        if not folder.name.endswith("-00000000"):
            assert ready.wait(20)
        save(folder, *content)

    monkeypatch.setattr(state.checkpoint, "save_checkpoint", save_later)
    return ready


def test_a_checkpoint_holds_the_state_of_its_step(tmp_path: Path, slow_disk: threading.Event) -> None:
    """Training reaches step 3 before step 2 is written; later saves wait for it."""
    states: dict[str, dict[str, bytes]] = {}
    for name, word in (("at once", "async_save=false"), ("later", "async_save=true")):
        if name == "at once":
            slow_disk.set()

        def watch(record) -> None:
            if record["step"] == 3:
                slow_disk.set()

        train("igpt.digits", tmp_path / name, *SAVING, word, observer=RunObserver(record=watch))
        states[name] = folders(tmp_path / name)
        slow_disk.clear()
    assert states["at once"].keys() == states["later"].keys()
    assert states["at once"] == states["later"]
    assert len(states["later"]) == 4


def test_a_folder_that_was_moved_is_not_created_again(tmp_path: Path) -> None:
    """Training ends at the next checkpoint, and continues from the one before where the folder is now."""

    def move(record) -> None:
        if record["kind"] == "train" and record["step"] == 5:
            (tmp_path / "run").rename(tmp_path / "moved")

    with pytest.raises(RuntimeError, match="run was moved or deleted; resume it where it is now"):
        train("igpt.digits", tmp_path / "run", *SAVING, observer=RunObserver(record=move))
    assert [each.name for each in tmp_path.iterdir()] == ["moved"]
    assert resume(tmp_path / "moved").finished

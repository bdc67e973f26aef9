"""A path that begins with `~` is in the home folder, wherever a path is given."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import isopix
from isopix.core.overrides import override
from isopix.core.text import expand_home
from isopix.generate.mask import completion_mask
from isopix.pretrained.model import PretrainedModel
from isopix.recipes.registry import find
from isopix.storage.cache import default_cache
from isopix.studies.papers.protocol import existing_runs
from tests.unit.data.refusal import refusal
from tests.unit.pretrained.cases import CAUSAL, model


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_only_a_path_in_a_home_folder_is_changed(home: Path) -> None:
    assert expand_home(Path("~/a")) == home / "a"
    for value in ("~", "~a", "a/~/b", "./~/b", "~nobody-of-this-name/b", 3, None):
        assert expand_home(value) == value


REFUSED: dict[str, Callable[[str], object]] = {
    "a run": isopix.load,
    "a run of a verb": isopix.probe,
    "an object of a run": isopix.Run,
    "data": isopix.data_show,
    "data of a setting": lambda path: isopix.pretrain("igpt.digits", f"source={path}", out=Path("x")),
    "weights": lambda path: isopix.pretrain(weights=path, out=Path("x")),
    "a group": isopix.compare,
    "a plugin": isopix.load_plugin,
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=list(REFUSED))
def test_a_call_names_the_path_in_full(home: Path, call: Callable[[str], object]) -> None:
    assert str(home / "no") in refusal(call, "~/no")


def test_settings_files_and_names_are_read_in_full(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = override(find("igpt.digits"), {"data.source": "~/photos", "codec.palette_file": "~/p.npz"})
    assert recipe.data.source == f"{home}/photos"
    assert recipe.model.codec.with_absolute_paths().palette_file == f"{home}/p.npz"
    assert existing_runs(["a=~/run"]) == {"a": f"{home}/run"}
    monkeypatch.setenv("ISOPIX_CACHE", "~/cache")
    assert default_cache() == home / "cache"


def test_images_masks_and_saved_models_are_in_the_home_folder(home: Path) -> None:
    own: PretrainedModel = model(CAUSAL)
    height, width = own.network.codec.image_size
    Image.fromarray(np.eye(height, width, dtype=np.uint8) * 255).save(home / "a.png")
    assert own.preprocess("~/a.png").shape == (1, 3, height, width)
    assert completion_mask("~/a.png", own.network.codec, 1).any()
    own.save("~/saved")
    assert (home / "saved/recipe.json").is_file()

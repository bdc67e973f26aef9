"""A path that begins with `~` is in the home folder, wherever a path is given."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import isopix
from isopix.core.overrides import override
from isopix.core.text import expand_home
from isopix.recipes.registry import find
from isopix.storage.cache import default_cache
from isopix.studies.papers.protocol import existing_runs
from tests.unit.data.refusal import refusal
from tests.unit.pretrained.cases import CAUSAL, model

REFUSED: list[Callable[[str], object]] = [
    *(isopix.load, isopix.probe, isopix.Run, isopix.data_show, isopix.load_plugin),
    lambda path: isopix.pretrain("igpt.digits", f"source={path}", out=Path("x")),
    lambda path: isopix.pretrain(weights=path, out=Path("x")),
]


def test_a_path_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ISOPIX_CACHE", "~/cache")
    assert expand_home(Path("~/a")) == tmp_path / "a"
    for value in ("~", "~a", "a/~/b", "./~/b", "~nobody-of-this-name/b", 3, None):
        assert expand_home(value) == value
    for call in REFUSED:
        assert f"{tmp_path}/no" in refusal(call, "~/no")
    recipe = override(find("igpt.digits"), {"codec.palette_file": "~/p.npz"})
    assert recipe.model.codec.with_absolute_paths().palette_file == f"{tmp_path}/p.npz"
    assert existing_runs(["a=~/run"]) == {"a": f"{tmp_path}/run"}
    assert default_cache() == tmp_path / "cache"
    own = model(CAUSAL)
    size = own.network.codec.image_size
    Image.fromarray(np.eye(*size, dtype=np.uint8) * 255).save(tmp_path / "a.png")
    assert own.preprocess("~/a.png").shape == (1, 3, *size)
    own.complete("~/a.png", mask="~/a.png")  # else the mask is refused: it is not a file
    own.save("~/saved")
    assert (tmp_path / "saved/recipe.json").is_file()

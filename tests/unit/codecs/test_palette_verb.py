"""`isopix palette`, on bundled digits."""

import json
from pathlib import Path

import pytest

from isopix.codecs import palette_spec
from isopix.codecs.results import PaletteResult
from isopix.verbs.data import palette_fit, palette_show


def test_fit_writes_palette_figures_and_the_record_that_show_measures_again(tmp_path: Path) -> None:
    found = palette_fit(data="digits", colors=5, out=tmp_path / "new" / "p.npz", size=(8, 8), limit=50)
    assert PaletteResult.read(tmp_path / "new" / "p.npz") == found
    assert palette_spec.read_palette(found.path).colors.tolist() == list(map(list, found.rgb))
    again = palette_show(tmp_path / "new" / "p.npz", data="digits", size=(8, 8), limit=50)
    figures = [f"p{part}.{suffix}" for part in ("", "-images") for suffix in ("json", "png", "svg")]
    assert {each.name for each in (tmp_path / "new").iterdir()} == {"p.npz", *figures}
    assert (again.splits, again.fingerprint, again.path) == (found.splits, found.fingerprint, None)
    errors = json.loads((tmp_path / "new" / "p-images.json").read_text())["rmse_per_image"]
    assert len(errors) == 10
    assert min(errors) > 0
    with pytest.raises(ValueError, match="512 colors requested, but the images have only 17 distinct colors"):
        palette_fit(data="digits", out=tmp_path / "p.npz", size=(8, 8))

"""`isopix palette`, on bundled digits."""

import json
from pathlib import Path

import numpy as np

from isopix.codecs import palette_spec
from isopix.codecs.results import PaletteResult
from isopix.verbs.data import palette_fit, palette_import, palette_show


def test_fit_writes_palette_figures_and_the_record_that_show_measures_again(tmp_path: Path) -> None:
    found = palette_fit(data="digits", colors=5, out=tmp_path / "new" / "p.npz", size=(8, 8), limit=50)
    figures = [f"p{part}.{suffix}" for part in ("", "-images") for suffix in ("json", "png", "svg")]
    assert {each.name for each in (tmp_path / "new").iterdir()} == {"p.npz", *figures}
    assert PaletteResult.read(tmp_path / "new" / "p.npz") == found
    assert palette_spec.read_palette(found.path).colors.tolist() == list(map(list, found.rgb))
    again = palette_show(tmp_path / "new" / "p.npz", data="digits", size=(8, 8), limit=50)
    assert (again.splits, again.fingerprint, again.path) == (found.splits, found.fingerprint, None)
    errors = json.loads((tmp_path / "new" / "p-images.json").read_text())["rmse_per_image"]
    assert len(errors) == 10
    assert min(errors) > 0
    few = palette_fit(data="digits", out=tmp_path / "p.npz", size=(8, 8))
    note = "the images have only 17 distinct colors, so that the palette has no more"
    assert (few.num_colors, few.warnings, found.warnings) == (17, (note,), ())


def test_import_takes_the_range_and_show_counts_unused_colors(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.array([[-1.0, -1, -1], [1, -1, -1], [1, 1, 1]]))
    found = palette_import(tmp_path / "c.npy", out=tmp_path / "p.npz", value_range=(-1.0, 1.0))
    assert [color[1] for color in found.rgb] == [0, 0, 255]
    before = {*tmp_path.iterdir()}
    shown = palette_show(tmp_path / "p.npz", data="digits", size=(8, 8))
    assert {each.unused_colors for each in shown.splits.values()} == {1}
    assert {*tmp_path.iterdir()} == before

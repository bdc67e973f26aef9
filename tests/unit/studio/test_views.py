"""Opened runs, and the page's completions, neighbors, attention and surprise: those of the package."""

import base64
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import isopix
from isopix.analysis.neighbors import standardized
from isopix.generate.complete import GRAY
from isopix.objectives.objectives import NoObjective
from isopix.studio import run as studio
from isopix.studio.run import PAINTED, ChosenImage, OpenedRun, hidden_part, image_of, open_runs, pixels_of
from isopix.studio.views import (
    Tile,
    attention_tiles,
    completion_frames,
    download_html,
    feature_map_html,
    neighbor_tiles,
    problem_html,
    surprise_tiles,
    tiles_html,
)
from tests.unit.data.refusal import refusal


@pytest.fixture(scope="session")
def opened(pristine: Path) -> dict[str, OpenedRun]:
    runs = open_runs([pristine / "ar", pristine / "bert"], data=None, device="cpu")
    return {run.name: run for run in runs}


def test_neighbors_are_those_of_the_features_of_the_layer(opened: dict[str, OpenedRun]) -> None:
    run, image = opened["ar"], opened["ar"].images[3:4]
    tiles = neighbor_tiles(run, image, 1, index=3)
    features = run.model.features(run.images, 1)
    similarities = F.cosine_similarity(standardized(features)[3:4], standardized(features))
    similarities[3] = -2
    best = pixels_of(run.images[int(similarities.argmax())][None])
    assert np.array_equal(tiles[0].pixels, pixels_of(image))
    assert np.array_equal(tiles[1].pixels, best)
    assert tiles[1].caption == f"similarity {float(similarities.max()):.2f}"


def test_a_map_has_a_point_for_each_image_in_the_color_of_its_class(opened: dict[str, OpenedRun]) -> None:
    run = opened["ar"]
    drawn = feature_map_html(run, 1)
    assert drawn.count("<use ") == 2 * len(run.images) + len(set(run.labels))  # PCA, t-SNE and the legend
    assert {f">{label}<" in drawn for label in run.labels} == {True}
    with pytest.raises(ValueError, match="layer 9 does not exist"):
        feature_map_html(run, 9)


def test_attention_of_a_causal_model_reaches_earlier_pixels_only(opened: dict[str, OpenedRun]) -> None:
    run, image = opened["ar"], opened["ar"].images[:1]
    tiles = attention_tiles(run, image, 4, 3)
    assert [tile.caption for tile in tiles] == ["marked position", "rollout, all layers", "layer 1"]
    assert tuple(tiles[0].pixels[4, 3]) == (255, 0, 64)
    gray = pixels_of(image)  # digits are gray
    assert np.array_equal(tiles[2].pixels[5:], gray[5:])
    assert np.array_equal(tiles[2].pixels[4, 4:], gray[4, 4:])
    assert not np.array_equal(tiles[2].pixels[4, :4], gray[4, :4])
    assert "pixel 8,0 does not exist; rows are 0 to 7" in refusal(lambda: attention_tiles(run, image, 8, 0))


def test_surprise_has_the_likelihood_of_the_model(opened: dict[str, OpenedRun]) -> None:
    run, image = opened["ar"], opened["ar"].images[:1]
    tiles, scores = surprise_tiles(run, image)
    assert len(tiles) == 2
    assert dict(scores.rows)["model, nats per code"] == f"{float(run.model.nll(image)):.3f}"
    assert dict(surprise_tiles(opened["bert"], image)[1].rows).keys() >= {"masked loss, nats per code"}


def test_text_is_escaped() -> None:
    tile = Tile(torch.zeros(2, 2, 3, dtype=torch.uint8).numpy(), '"<b>')
    assert "<b>" not in (found := tiles_html([tile], title="<b>") + problem_html("<b>\nx"))
    assert 'alt="&#34;' in found


def drawn(frames: list) -> np.ndarray:
    return np.stack([tile.pixels for tile in frames[-1].completions])


@pytest.mark.parametrize("name", ["ar", "bert"])
def test_a_seed_gives_the_pictures_of_the_command(
    opened: dict[str, OpenedRun], pristine: Path, name: str
) -> None:
    run = opened[name]
    settings = {"each": 2, "temperature": 0.9, "top_k": 5, "seed": 3, "order": "inward", "iterations": 4}
    frames = list(completion_frames(run, run.images[:1], "half", settings))
    assert [frame.done for frame in frames] == sorted(frame.done for frame in frames)
    assert frames[-1].done == frames[-1].total
    options = {} if name == "ar" else {"order": "inward", "iterations": 4}
    same = {"mask": "half", "each": 2, "temperature": 0.9, "top_k": 5, "seed": 3, "device": "cpu"}
    found = isopix.complete(isopix.load(pristine / name, device="cpu"), run.images[:1], **same, **options)
    expected = found.images[0].permute(0, 2, 3, 1).numpy()
    assert np.array_equal(drawn(frames), expected)
    nats = [f"{float(each):,.1f} nats".replace("-", "\N{MINUS SIGN}") for each in found.log_likelihood[0]]
    assert [tile.caption for tile in frames[-1].completions] == nats


def test_the_visible_part_is_that_of_the_completions(opened: dict[str, OpenedRun]) -> None:
    run = opened["bert"]
    for seed in (3, 4):
        *_, last = completion_frames(run, run.images[:1], "random:0.5", {"each": 1, "seed": seed})
        hidden = (last.given[1].pixels == GRAY).all(-1)
        assert 0 < hidden.sum() < hidden.size
        assert (last.completions[0].pixels == last.given[0].pixels)[~hidden].all()


def layer(folder: Path, rows: slice, columns: slice) -> Path:
    """A file of the editor: painted at these pixels."""
    pixels = np.zeros((400, 400, 4), dtype=np.uint8)
    pixels[rows, columns, 3] = 255
    Image.fromarray(pixels).save(path := folder / f"{rows.start}.png")
    return path


def test_what_is_painted_is_hidden(opened: dict[str, OpenedRun], tmp_path: Path) -> None:
    parts = (slice(110, 130), slice(260, 301)), (slice(120, 140), slice(270, 290))
    layers = [layer(tmp_path, *each) for each in parts]  # rows 2, columns 5 to 6 of 8
    mask, run = hidden_part(PAINTED, layers), opened["bert"]
    expected = torch.zeros(8, 8, dtype=torch.bool)
    expected[2, 5:7] = True
    frames = list(completion_frames(run, run.images[:1], mask, {"each": 1}))
    assert frames[-1].total == 2  # positions, each a pass of its own
    changed = (frames[-1].completions[0].pixels != frames[-1].given[1].pixels).any(-1)
    assert not changed[~expected.numpy()].any()


def test_an_empty_canvas_and_too_many_pixels_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for layers in ([layer(tmp_path, slice(0), slice(0))], []):
        assert "nothing is painted yet" in refusal(hidden_part, PAINTED, layers)
    assert hidden_part("Lower half", []) == "half"
    layers = [layer(tmp_path, slice(row, 9), slice(9)) for row in (1, 2)]
    assert len(hidden_part(PAINTED, layers)) == 400
    monkeypatch.setattr(studio, "MAX_PIXELS", 2 * 400 * 400 - 1)
    assert "400x400 pixels, above the limit of 159,999" in refusal(hidden_part, PAINTED, layers)


def test_an_autoregressive_model_says_that_it_does_not_see_later_pixels(opened: dict[str, OpenedRun]) -> None:
    notes = []
    for name, mask in (("ar", "half"), ("ar", "rectangle"), ("bert", "rectangle")):
        frames = completion_frames(opened[name], opened[name].images[:1], mask, {"each": 1})
        notes.append("does not see them" in next(frames).note)
    assert notes == [False, True, False]


def test_the_first_test_images_are_shown(opened: dict[str, OpenedRun]) -> None:
    run = opened["ar"]
    assert run.note == f"first {len(run.images)} of {len(run.images)} test images of digits"
    image = run.images[2:3]
    assert torch.equal(image_of(run, ChosenImage(pixels_of(image), 2)), image)


def test_what_a_model_cannot_do_is_said(opened: dict[str, OpenedRun]) -> None:
    run = opened["ar"]
    assert [run.problem(each) for each in ("complete", "attention", "surprise")] == ["", "", ""]
    recipe = replace(run.loaded.recipe, objective=NoObjective())
    other = replace(run, model=type(run.model)(replace(run.loaded, recipe=recipe)))
    assert "cannot complete images; try isopix probe" in other.problem("complete")
    assert "no likelihood and no masked loss" in other.problem("surprise")


def test_what_is_no_run_or_no_dataset_is_refused(pristine: Path, tmp_path: Path) -> None:
    wrong = refusal(lambda: open_runs([pristine / "ar"], data=str(tmp_path / "nothing"), device="cpu"))
    assert "nothing" in wrong
    assert "is not a run" in refusal(lambda: open_runs([tmp_path], data=None, device="cpu"))


def test_equal_names_are_told_apart(pristine: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    other = shutil.copytree(pristine / "ar", tmp_path / "again" / "ar")
    names = [run.name for run in open_runs([pristine / "ar", other], data=None, device="cpu")]
    assert names == [f"1: {pristine / 'ar'}", f"2: {other}"]


def test_downloads_are_all_steps_as_a_gif_and_the_last_as_a_png(opened: dict[str, OpenedRun]) -> None:
    run = opened["ar"]
    made = [each.completions for each in completion_frames(run, run.images[:1], "half", {"each": 2})]
    files = re.findall(r'href="data:image/\w+;base64,([^"]+)"', download_html(made))
    png, gif = (Image.open(io.BytesIO(base64.b64decode(each))) for each in files)
    assert gif.n_frames == len(made)
    assert np.array_equal(np.asarray(png)[::32, ::32], np.hstack([each.pixels for each in made[-1]]))
    gif.seek(gif.n_frames - 1)
    assert np.array_equal(np.asarray(gif.convert("RGB")), np.asarray(png))  # 17 grays fit a palette

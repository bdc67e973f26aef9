"""Neighbors, attention and surprise of the page are those of the package."""

import numpy as np
import torch
import torch.nn.functional as F

from isopix.analysis.neighbors import standardized
from isopix.studio.run import OpenedRun, pixels_of
from isopix.studio.views import (
    Tile,
    attention_tiles,
    neighbor_tiles,
    problem_html,
    surprise_tiles,
    tiles_html,
)
from tests.unit.data.refusal import refusal


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


def test_a_copy_of_a_test_image_finds_it(opened: dict[str, OpenedRun]) -> None:
    tiles = neighbor_tiles(opened["bert"], opened["bert"].images[5:6], 0)
    assert np.array_equal(tiles[1].pixels, tiles[0].pixels)
    assert tiles[1].caption == "similarity 1.00"


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
    assert dict(scores)["Model, nats per code"] == f"{float(run.model.nll(image)):.3f}"
    assert dict(surprise_tiles(opened["bert"], image)[1]).keys() >= {"Masked loss, nats per code"}


def test_text_is_escaped() -> None:
    tile = Tile(torch.zeros(2, 2, 3, dtype=torch.uint8).numpy(), "<b>")
    assert "<b>" not in tiles_html([tile], title="<b>") + problem_html("<b>\nx")

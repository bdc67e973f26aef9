"""What a model makes of one image: neighbors by layer, attention from a pixel, surprise."""

from collections.abc import Callable

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from isopix.analysis.attention import QueryAttention, attention_from
from isopix.analysis.likelihood import ScoreConfig, code_nats, surprise_maps
from isopix.analysis.neighbors import nearest_neighbors
from isopix.analysis.scores import SCORES, score_images
from isopix.core.types import Images
from isopix.plots.images import MappedImages, overlay_maps
from isopix.pretrained.inference import inference
from isopix.probing.feature_splits import Features
from isopix.probing.features import extract_features
from isopix.studio.opened_run import OpenedRun, Pixels, pixels_of
from isopix.studio.tiles import Tile

NUM_NEIGHBORS = 8
NUM_MASKS = 32  # of the surprise map of a masked model, so that most pixels are predicted
NO_PAIRS = 2.0  # a cosine similarity that no pair has

Progress = Callable[[int], None]  # called with the number of images done


def neighbor_tiles(
    run: OpenedRun, image: Images, layer: int, *, index: int | None = None, progress: Progress | None = None
) -> list[Tile]:
    """Return the image and the nearest test images by the features of a layer, but for the one of this index,
    which is the image itself. Raises ValueError if there are fewer than two others.
    """
    others = [i for i in range(len(run.images)) if i != index]
    if len(others) < 2:
        raise ValueError(f"there are no images to compare with; {run.note}")
    query = extract_features(run.model.network, image)[layer]
    points = torch.cat([query, gallery_features(run, progress)[layer][others]])
    count = min(NUM_NEIGHBORS, len(others))
    found = nearest_neighbors(points, num_neighbors=count, threshold=NO_PAIRS, device=torch.device("cpu"))
    tiles = [Tile(pixels_of(image), "this image")]
    for place, similarity in zip(found.indices[0].tolist(), found.similarities[0].tolist(), strict=True):
        picture = pixels_of(run.images[others[place - 1]][None])
        tiles.append(Tile(picture, f"similarity {similarity:.2f}".replace("-", "\N{MINUS SIGN}")))
    return tiles


def gallery_features(run: OpenedRun, progress: Progress | None = None) -> Features:
    """Return the features of all layers of the test images, [L+1 B D]; computed once."""
    with run.lock:
        if run.features is None:
            run.features = extract_features(run.model.network, run.images, progress=progress)
        return run.features


def attention_tiles(run: OpenedRun, image: Images, row: int, col: int) -> list[Tile]:
    """Return the attention from the position of a pixel, by rollout and as the mean over the heads of each
    layer. Raises ValueError for a pixel that does not exist and for a model without attention.
    """
    rows, cols = run.size
    if not (0 <= row < rows and 0 <= col < cols):
        raise ValueError(
            f"pixel {row},{col} does not exist; rows are 0 to {rows - 1}, columns 0 to {cols - 1}"
        )
    backbone, side = run.model.network.backbone, run.model.network.codec.patch_size
    position = (row // side) * backbone.grid.cols + col // side
    query = torch.tensor([backbone.num_prefix_tokens + position])
    causal = run.loaded.recipe.objective.causal
    with inference(run.model, "fp32"):
        found = attention_from(run.model.network, image, query, causal=causal)
    names = [f"layer {layer} {axis.name}".strip() for layer, axis in backbone.attention_axes()]
    return [
        Tile(_marked(pixels_of(image), row, col, side), "marked position"),
        Tile(_map(run, image, found.rollout[0], found.uniform_rollout[0]), "rollout, all layers"),
        *(_layer_tile(run, image, found, number, name) for number, name in enumerate(names)),
    ]


def surprise_tiles(run: OpenedRun, image: Images) -> tuple[list[Tile], list[tuple[str, str]]]:
    """Return the image and its surprise map, in nats per pixel, and its scores by name."""
    run.loaded.require_decoder("surprise")
    config, given = ScoreConfig(num_masks=NUM_MASKS), image.to(run.model.network.device)
    with inference(run.model, "fp32"):
        scores = score_images(run.loaded.model, run.loaded.recipe.model.head, given, config)
        maps = surprise_maps(run.model.network.codec, code_nats(run.loaded.model, given, config)).numpy()
    highest = float(np.nanmax(maps, initial=0.0))
    drawn = overlay_maps(MappedImages("", image, maps), highest or 1.0, 1)[0, ..., :3]
    rows = [
        (SCORES[name][:1].upper() + SCORES[name][1:], f"{float(each[0]):.3f}")
        for name, each in scores.items()
    ]
    caption = f"black 0, yellow {highest:.1f} nats per pixel"
    return [Tile(pixels_of(image), "original"), Tile(np.ascontiguousarray(drawn), caption)], rows


def _layer_tile(run: OpenedRun, image: Images, found: QueryAttention, number: int, name: str) -> Tile:
    weights, uniform = found.heads[0, number].mean(0), found.uniform_heads[0, number]
    return Tile(_map(run, image, weights, uniform), name)


def _map(run: OpenedRun, image: Images, weights: Tensor, uniform: Tensor) -> Pixels:
    """Return the weights in color, up to their maximum, over the image; gray where attention cannot go."""
    grid = run.model.network.backbone.grid
    shown = torch.where(uniform > 0, weights, torch.nan)
    maps = rearrange(shown, "(h w) -> 1 h w", h=grid.rows).numpy()
    drawn = overlay_maps(MappedImages("", image, maps), float(weights.max()) or 1.0, 1)[0, ..., :3]
    return np.ascontiguousarray(drawn)


def _marked(pixels: Pixels, row: int, col: int, side: int) -> Pixels:
    """Return the image with the position of a pixel in red."""
    marked = pixels.copy()
    top, left = row // side * side, col // side * side
    marked[top : top + side, left : left + side] = (255, 0, 64)
    return marked

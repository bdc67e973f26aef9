"""What a model makes of one image, as pictures: completions, neighbors, attention from a pixel, surprise."""

import html
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from isopix.analysis.base import AnalysisInput
from isopix.analysis.feature_projection import FeatureProjection
from isopix.analysis.neighbors import nearest_neighbors
from isopix.analysis.results import SCORES
from isopix.analysis.scores import ScoreConfig, score_images
from isopix.core.text import Table, printable
from isopix.core.types import Images
from isopix.generate.complete import GRAY, completion_steps
from isopix.generate.mask import LATER_PIXELS, MaskLike, completion_mask, hidden_pixels, later_known
from isopix.generate.results import LIKELIHOODS
from isopix.plots.images import overlay_maps, png_bytes
from isopix.plots.style import inline_svg
from isopix.pretrained.feature_extractor import inference
from isopix.probing.features import extract_features
from isopix.reporting.section import data_url, image_tag
from isopix.studio.run import OpenedRun, Pixels, pixels_of

SAVED_HEIGHT = 256  # pixels of a downloaded picture, about
FRAME_TIME, LAST_TIME = 100, 2000  # milliseconds of a frame of a GIF


class Tile(NamedTuple):
    """A picture of uint8 [H W 3] and its caption."""

    pixels: UInt8[np.ndarray, "H W 3"]
    caption: str


def tiles_html(tiles: Sequence[Tile], *, title: str = "") -> str:
    """Return pictures side by side, each pixel a square."""
    heading = f"<h3>{escaped(title)}</h3>" if title else ""
    return f'{heading}<div class="tiles">{"".join(map(_figure, tiles))}</div>'


def note_html(text: str) -> str:
    """Return a quiet line; nothing for an empty one."""
    return f'<p class="note">{escaped(text)}</p>' if text else ""


def problem_html(text: str) -> str:
    """Return the line of an error."""
    return f'<p class="problem" role="alert">{escaped(" ".join(text.split()))}</p>'


def _figure(tile: Tile) -> str:
    caption = printable(tile.caption)
    image = image_tag(png_bytes(Image.fromarray(tile.pixels)), caption or "picture", scale=1.0)
    return f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>"


def escaped(text: str) -> str:
    """Return text for HTML, without characters that are not shown."""
    return html.escape(printable(text))


def download_html(frames: Sequence[Sequence[Tile]]) -> str:
    """Return links that save the last pictures as a PNG file, and all of them in turn as a GIF."""
    strips, gif = [_strip(tiles) for tiles in frames], io.BytesIO()
    times = [FRAME_TIME] * (len(strips) - 1) + [LAST_TIME]
    strips[0].save(gif, "GIF", save_all=True, append_images=strips[1:], duration=times, loop=0)
    files = {"png": png_bytes(strips[-1]), "gif": gif.getvalue()}
    links = (
        f'<a download="completions.{kind}" href="{data_url(content, f"image/{kind}")}">{kind.upper()}</a>'
        for kind, content in files.items()
    )
    return f'<p class="note">Download: {" ".join(links)}</p>'


def _strip(tiles: Sequence[Tile]) -> Image.Image:
    """Return pictures side by side, enlarged."""
    joined = np.concatenate([each.pixels for each in tiles], axis=1)
    height, width = joined.shape[:2]
    scale = max(1, SAVED_HEIGHT // height)
    return Image.fromarray(joined).resize((width * scale, height * scale), Image.Resampling.NEAREST)


class CompletionFrame(NamedTuple):
    """Pictures after `done` of `total` rows or passes."""

    given: list[Tile]
    completions: list[Tile]
    done: int
    total: int
    note: str


def completion_frames(
    run: OpenedRun, image: Images, mask: MaskLike, settings: Mapping[str, Any]
) -> Iterator[CompletionFrame]:
    """Yield pictures of `completion_steps`. Raises ValueError for wrong settings."""
    run.model.require("complete")
    network, raster = run.model.network, run.loaded.recipe.objective.can_sample
    hidden = hidden_pixels(completion_mask(mask, network.codec, 1, seed=settings.get("seed", 0)), image)
    given = {name: settings[name] for name in settings if not (raster and name in ("order", "iterations"))}
    note = f"{LIKELIHOODS['raster' if raster else 'path']}, below each picture."
    if raster and later_known(hidden, network.codec):
        note = f"{note} Note: {LATER_PIXELS}."
    seen = network.visible_pixels(image.to(network.device)).cpu().masked_fill(hidden[:, None], GRAY)
    shown = [Tile(pixels_of(image), "original"), Tile(pixels_of(seen), "visible part")]
    for step in completion_steps(run.loaded.model, run.model.prompt(image, mask=mask, **given)):
        done = step.done == step.total
        made = [
            Tile(pixels_of(each[None]), f"{nats:,.1f} nats".replace("-", "−") if done else "")
            for each, nats in zip(step.images[0], step.log_likelihood[0].tolist(), strict=True)
        ]
        yield CompletionFrame(shown, made, step.done, step.total, note)


NUM_NEIGHBORS = 8
NUM_MASKS = 32  # of the surprise map of a masked model, so that most pixels are predicted


def neighbor_tiles(run: OpenedRun, image: Images, layer: int, *, index: int | None = None) -> list[Tile]:
    """Return the image and its nearest images by a layer's features, except the image of this index."""
    others = [i for i in range(len(run.images)) if i != index]
    if len(others) < 2:
        raise ValueError(f"there are no images to compare with; {run.note}")
    query = extract_features(run.model.network, image)[layer]
    count, points = min(NUM_NEIGHBORS, len(others)), run.features[layer][others]
    found = nearest_neighbors(points, num_neighbors=count, device=torch.device("cpu"), queries=query)
    tiles = [Tile(pixels_of(image), "this image")]
    for place, similarity in zip(found.indices[0].tolist(), found.similarities[0].tolist(), strict=True):
        picture = pixels_of(run.images[others[place]][None])
        tiles.append(Tile(picture, f"similarity {similarity:.2f}".replace("-", "\N{MINUS SIGN}")))
    return tiles


def feature_map_html(run: OpenedRun, layer: int) -> str:
    """Return the test images as points by a layer's features, in two dimensions and colored by class."""
    if not len(run.images):
        raise ValueError(f"there are no images to draw; {run.note}")
    network, pool = run.model.network, run.model.pool
    given = AnalysisInput(network, run.images, layer=layer, pool=pool, labels=run.labels)
    projection = FeatureProjection()
    numbers = projection.compute(given)
    caption = projection.caption(numbers)
    figure = inline_svg(projection.figure(numbers), name="map", alt=caption)
    return f'<div class="map">{figure}</div>{note_html(caption)}'


def attention_tiles(run: OpenedRun, image: Images, row: int, col: int) -> list[Tile]:
    """Return the attention from a pixel's position, by rollout and as the mean over heads of each layer."""
    rows, cols = run.size
    if not (0 <= row < rows and 0 <= col < cols):
        allowed = f"rows are 0 to {rows - 1}, columns 0 to {cols - 1}"
        raise ValueError(f"pixel {row},{col} does not exist; {allowed}")
    backbone, side = run.model.network.backbone, run.model.network.codec.patch_size
    found = run.model.attention_at(image, row // side, col // side)
    names = [f"layer {layer} {axis.name}".strip() for layer, axis in backbone.attention_axes()]
    weights = [found.rollout[0], *found.heads[0].mean(1)]
    uniform = [found.uniform_rollout[0], *found.uniform_heads[0]]
    marked = pixels_of(image).copy()
    top, left = row // side * side, col // side * side
    marked[top : top + side, left : left + side] = (255, 0, 64)
    shown = zip(weights, uniform, ["rollout, all layers", *names], strict=True)
    maps = [Tile(_map(run, image, each, reference), name) for each, reference, name in shown]
    return [Tile(marked, "marked position"), *maps]


def surprise_tiles(run: OpenedRun, image: Images) -> tuple[list[Tile], Table]:
    """Return the image and its surprise map, in nats per pixel, and its scores by name."""
    config, given = ScoreConfig(num_masks=NUM_MASKS), image.to(run.model.network.device)
    with inference(run.model, "fp32"):
        scores = score_images(run.loaded.model, given, config)
    maps = run.model.surprise(image, num_masks=NUM_MASKS).numpy()
    highest = float(np.nanmax(maps, initial=0.0))
    drawn = overlay_maps(image, maps, highest or 1.0)[0, ..., :3]
    rows = [(SCORES[name], f"{float(each[0]):.3f}") for name, each in scores.items()]
    table = Table("", ["score", "value"], rows)
    caption = f"black 0, yellow {highest:.1f} nats per pixel"
    return [Tile(pixels_of(image), "original"), Tile(np.ascontiguousarray(drawn), caption)], table


def _map(run: OpenedRun, image: Images, weights: Tensor, uniform: Tensor) -> Pixels:
    """Return the weights in color, up to their maximum, over the image; gray where attention cannot go."""
    grid = run.model.network.backbone.grid
    shown = torch.where(uniform > 0, weights, torch.nan)
    maps = rearrange(shown, "(h w) -> 1 h w", h=grid.rows).numpy()
    drawn = overlay_maps(image, maps, float(weights.max()) or 1.0)[0, ..., :3]
    return np.ascontiguousarray(drawn)

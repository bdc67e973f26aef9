"""Color palettes: their colors, how often they are used, and images before and after quantization."""

import math
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from isopix.core.types import Images
from isopix.plots import style

PaletteColors = Float[Tensor, "K 3"]  # levels 0 to 255
GRAY_CHROMA = 0.025  # OKLab chroma below which a color is sorted as gray
MAX_SINGLE_ROW = 32  # colors; larger palettes are shown in several rows
LABEL_WIDTH = 0.22  # inches, of the row labels
GAP = 0.02  # inches between images
ERROR_GAIN = 8  # errors are multiplied by this factor


@style.figure_style()
def plot_palette(
    colors: PaletteColors, counts: Int[Tensor, " K"] | None = None, *, title: str = "Palette"
) -> Figure:
    """Plot all colors by hue and lightness, and in OKLab; areas are proportional to the number of pixels."""
    rows: Any = [["mosaic"] * 2, ["hue", "light"], ["usage"] * 2][: 2 if counts is None else 3]
    figure = style.new_figure(6.5 if counts is None else 6.9)
    panels = figure.subplot_mosaic(rows, height_ratios=[3.3, 2.9, 0.35][: len(rows)])
    lab = oklab(colors)
    _tiles(panels["mosaic"], arrange_colors(colors))
    panels["mosaic"].set_title(title)
    lightness, green_red, blue_yellow = lab.unbind(1)
    chroma = lab[:, 1:].norm(dim=1)
    limit, areas = max(0.1, 1.08 * float(chroma.max())), _marker_areas(len(colors), counts)
    hue, light = panels["hue"], panels["light"]
    _scatter(hue, (green_red, blue_yellow), colors, areas)
    hue.set(title="Hue", xlabel="OKLab a (green to red)", ylabel="OKLab b (blue to yellow)")
    hue.set(xlim=(-limit, limit), ylim=(-limit, limit))
    _scatter(light, (chroma, lightness), colors, areas)
    light.set(title="Lightness", xlabel="OKLab chroma", ylabel="OKLab L (black to white)")
    light.set(xlim=(-0.08 * limit, limit), ylim=(-0.05, 1.06))
    if counts is not None:
        for axes in (hue, light):
            axes.set_title("dot area: number of pixels", loc="right", fontsize=7.5, fontweight="normal")
        _usage_bar(panels["usage"], colors, counts, lightness)
    return figure


@style.figure_style()
def plot_quantization(images: Images, quantized: Images) -> Figure:
    """Plot images, their quantization by a palette, and the absolute error."""
    error = (images.int() - quantized.int()).abs().mul(ERROR_GAIN).clamp(max=255).to(torch.uint8)
    rows = {"original": images, "quantized": quantized, f"error ×{ERROR_GAIN}": error}
    height, width = images.shape[2:]
    width_each = (style.PAGE_WIDTH - LABEL_WIDTH) / len(images)
    figure = style.new_figure(len(rows) * width_each * height / width)
    figure.set_layout_engine("constrained", w_pad=GAP, h_pad=GAP, wspace=0, hspace=0)
    panels = figure.subplots(len(rows), len(images), squeeze=False)
    for line, (name, row) in zip(panels, rows.items(), strict=True):
        for axes, image in zip(line, row, strict=True):
            axes.imshow(rearrange(image, "c h w -> h w c").cpu().numpy(), interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        line[0].set_ylabel(name)
    return figure


def _tiles(axes: Axes, tiles: Float[Tensor, "rows cols 3"]) -> None:
    faces = rearrange(tiles / 255, "rows cols c -> (rows cols) c").numpy()
    width = 1.2 if tiles.shape[1] <= MAX_SINGLE_ROW else 0.6
    mesh = axes.pcolormesh(torch.zeros(tiles.shape[:2]).numpy(), edgecolors=style.GRID_COLOR, linewidth=width)
    mesh.set(array=None, facecolors=faces)
    axes.invert_yaxis()
    axes.set_axis_off()


def arrange_colors(colors: PaletteColors) -> Float[Tensor, "rows cols 3"]:
    """Return columns of similar hue, grays first, each from light to dark; unused tiles are white."""
    rows = 1 if len(colors) <= MAX_SINGLE_ROW else round(math.sqrt(len(colors) / 2))
    cols = math.ceil(len(colors) / rows)
    lab = oklab(colors)
    hue = torch.atan2(lab[:, 2], lab[:, 1])
    hue[lab[:, 1:].norm(dim=1) < GRAY_CHROMA] = -4.0  # before every angle
    order = torch.stack([hue, lab[:, 0]], dim=1).tolist()
    ranked = sorted(range(len(colors)), key=lambda i: order[i])
    tiles = torch.full((cols, rows, 3), 255.0)
    for column in range(cols):
        part = sorted(ranked[column * rows : (column + 1) * rows], key=lambda i: -order[i][1])
        tiles[column, : len(part)] = colors[part].round()
    return rearrange(tiles, "cols rows c -> rows cols c")


def oklab(colors: PaletteColors) -> Float[Tensor, "K 3"]:
    """Return OKLab lightness, green-red and blue-yellow coordinates of sRGB levels (Ottosson 2020)."""
    srgb = colors / 255
    linear = torch.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    cones = linear @ torch.tensor(
        [
            [0.4122214708, 0.2119034982, 0.0883024619],
            [0.5363325363, 0.6806995451, 0.2817188376],
            [0.0514459929, 0.1073969566, 0.6299787005],
        ]
    )
    return cones ** (1 / 3) @ torch.tensor(
        [
            [0.2104542553, 1.9779984951, 0.0259040371],
            [0.7936177850, -2.4285922050, 0.7827717662],
            [-0.0040720468, 0.4505937099, -0.8086757660],
        ]
    )


def _marker_areas(num_colors: int, counts: Int[Tensor, " K"] | None) -> Float[Tensor, " K"]:
    """Return marker areas in square points, whose sum does not depend on the number of colors."""
    if counts is None:
        return torch.full((num_colors,), min(120.0, 12_000 / num_colors))
    return (12_000 * counts / counts.sum().clamp(min=1)).clamp(3, 400)


def _scatter(axes: Axes, coordinates: tuple[Tensor, Tensor], colors: PaletteColors, areas: Tensor) -> None:
    largest_first = areas.argsort(descending=True)
    across, up = (values[largest_first].numpy() for values in coordinates)
    faces = (colors[largest_first] / 255).numpy()
    look: Any = {"edgecolors": style.MUTED_COLOR, "linewidths": 0.25}
    axes.scatter(across, up, s=areas[largest_first].numpy(), c=faces, **look)
    axes.grid(True, axis="both")
    axes.locator_params(nbins=5)


def _usage_bar(axes: Axes, colors: PaletteColors, counts: Int[Tensor, " K"], lightness: Tensor) -> None:
    order = lightness.argsort()
    widths = counts[order] / counts.sum().clamp(min=1)
    faces = (colors[order] / 255).numpy()
    axes.barh(0, widths.numpy(), left=(widths.cumsum(0) - widths).numpy(), height=1, color=faces, linewidth=0)
    axes.set(title="Fraction of pixels, dark to light", xlim=(0, 1), ylim=(-0.5, 0.5), yticks=[])
    style.percent_ticks(axes.xaxis)
    axes.spines[:].set_visible(False)
    axes.grid(False)

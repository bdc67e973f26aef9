"""Palettes as pictures: their colours, what they are used for, and images before and after."""

import math

import torch
from einops import rearrange
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from isopix.core.types import Images
from isopix.plots import style

Colours = Float[Tensor, "K 3"]  # levels of 0..255
GREY = 0.025  # OKLab chroma below which a colour has no hue to sort by
CHIPS_IN_A_ROW = 32  # as many colours stand in one row
LABEL = 0.22  # inches, for the names of the rows
GAP = 0.02  # inches around each image
GAIN = 8  # errors are shown so many times larger


@style.paper()
def palette(colours: Colours, counts: Int[Tensor, " K"] | None = None, *, title: str = "Palette") -> Figure:
    """All colours by hue and lightness, and where they lie in OKLab; areas are shares of the pixels."""
    drawn = style.figure(6.9 if counts is not None else 6.5)
    ratios = [3.3, 2.9, 0.35] if counts is not None else [3.3, 2.9]
    grid = drawn.add_gridspec(len(ratios), 2, height_ratios=ratios)
    lab = oklab(colours)
    mosaic = drawn.add_subplot(grid[0, :])
    _chips(mosaic, arrange(colours, lab))
    mosaic.set_title(title)
    lightness, green_red, blue_yellow = lab.unbind(1)
    chroma = lab[:, 1:].norm(dim=1)
    reach = max(0.1, 1.08 * float(chroma.max()))
    sizes = _sizes(len(colours), counts)
    hue = drawn.add_subplot(grid[1, 0])
    _scatter(hue, (green_red, blue_yellow), colours, sizes)
    hue.set(title="Hue", xlabel="OKLab a: green to red", ylabel="OKLab b: blue to yellow")
    hue.set(xlim=(-reach, reach), ylim=(-reach, reach))
    light = drawn.add_subplot(grid[1, 1])
    _scatter(light, (chroma, lightness), colours, sizes)
    light.set(title="Lightness", xlabel="chroma: grey to vivid", ylabel="OKLab L: black to white")
    light.set(xlim=(-0.08 * reach, reach), ylim=(-0.05, 1.06))
    if counts is not None:
        _strip(drawn.add_subplot(grid[2, :]), colours, counts, lightness)
    return drawn


@style.paper()
def before_after(images: Images, shown: Images) -> Figure:
    """Images, the same in the colours of a palette, and the error between them."""
    error = (images.int() - shown.int()).abs().mul(GAIN).clamp(max=255).to(torch.uint8)
    rows = {"original": images, "palette": shown, f"error ×{GAIN}": error}
    height, width = images.shape[2:]
    across = (style.WIDTH - LABEL) / len(images)
    drawn = style.figure(len(rows) * across * height / width)
    drawn.set_layout_engine("constrained", w_pad=GAP, h_pad=GAP, wspace=0, hspace=0)
    axes = drawn.subplots(len(rows), len(images), squeeze=False)
    for line, (name, pictures) in zip(axes, rows.items(), strict=True):
        for one, picture in zip(line, pictures, strict=True):
            one.imshow(rearrange(picture, "c h w -> h w c").cpu().numpy(), interpolation="nearest")
            one.set(xticks=[], yticks=[])
            one.spines[:].set_visible(False)
        line[0].set_ylabel(name)
    return drawn


def _chips(axes: Axes, tiles: Float[Tensor, "rows cols 3"]) -> None:
    faces = rearrange(tiles / 255, "rows cols c -> (rows cols) c").numpy()
    width = 1.2 if tiles.shape[1] <= CHIPS_IN_A_ROW else 0.6
    mesh = axes.pcolormesh(torch.zeros(tiles.shape[:2]).numpy(), edgecolors=style.FAINT, linewidth=width)
    mesh.set(array=None, facecolors=faces)
    axes.invert_yaxis()
    axes.set_axis_off()


def arrange(colours: Colours, lab: Float[Tensor, "K 3"]) -> Float[Tensor, "rows cols 3"]:
    """Columns of neighbouring hue, greys first, each from light to dark; what is left over is white."""
    rows = 1 if len(colours) <= CHIPS_IN_A_ROW else round(math.sqrt(len(colours) / 2))
    cols = math.ceil(len(colours) / rows)
    hue = torch.atan2(lab[:, 2], lab[:, 1])
    hue[lab[:, 1:].norm(dim=1) < GREY] = -4.0  # before every angle
    order = torch.stack([hue, lab[:, 0]], dim=1).tolist()
    ranked = sorted(range(len(colours)), key=lambda i: order[i])
    tiles = torch.full((cols, rows, 3), 255.0)
    for column in range(cols):
        part = sorted(ranked[column * rows : (column + 1) * rows], key=lambda i: -order[i][1])
        tiles[column, : len(part)] = colours[part].round()
    return rearrange(tiles, "cols rows c -> rows cols c")


def oklab(colours: Colours) -> Float[Tensor, "K 3"]:
    """Perceived lightness, green to red, blue to yellow, of sRGB levels (Ottosson 2020)."""
    share = colours / 255
    linear = torch.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
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


def _sizes(colours: int, counts: Int[Tensor, " K"] | None) -> Float[Tensor, " K"]:
    """Areas in square points: all together cover the same area whatever the number of colours."""
    if counts is None:
        return torch.full((colours,), min(120.0, 12_000 / colours))
    return (12_000 * counts / counts.sum().clamp(min=1)).clamp(3, 400)


def _scatter(axes: Axes, place: tuple[Tensor, Tensor], colours: Colours, sizes: Tensor) -> None:
    largest_first = sizes.argsort(descending=True)
    across, up = (values[largest_first].numpy() for values in place)
    faces = (colours[largest_first] / 255).numpy()
    axes.scatter(across, up, s=sizes[largest_first].numpy(), c=faces, edgecolors=style.QUIET, linewidths=0.25)
    axes.grid(True, axis="both")
    axes.locator_params(nbins=5)


def _strip(axes: Axes, colours: Colours, counts: Int[Tensor, " K"], lightness: Tensor) -> None:
    """Every colour as wide as its share of the pixels, from dark to light."""
    order = lightness.argsort()
    widths = counts[order] / counts.sum().clamp(min=1)
    faces = (colours[order] / 255).numpy()
    axes.barh(0, widths.numpy(), left=(widths.cumsum(0) - widths).numpy(), height=1, color=faces, linewidth=0)
    axes.set(title="Share of the pixels, dark to light", xlim=(0, 1), ylim=(-0.5, 0.5), yticks=[])
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.spines[:].set_visible(False)
    axes.grid(False)

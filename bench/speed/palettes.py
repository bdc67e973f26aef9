"""Speed of palette encoding, next to the color search of Hugging Face's ImageGPT processors, and of fitting a
palette, next to scikit-learn's k-means.

Images are synthetic photos. isopix encodes uint8 images; the peers start from pixels that are already
normalized and flattened, which favors them.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import sklearn
import torch
from einops import rearrange
from jaxtyping import Float
from speed import image_gpt, networks
from speed.benchmark import OWN, TINY, Benchmark, Measured, Size
from speed.numerics import NumericsError
from speed.timing import Stopwatch, Work
from torch import Tensor

from isopix.codecs import kmeans
from isopix.codecs.kmeans import quantization_error
from isopix.codecs.palette import Palette
from isopix.core.random import generator
from isopix.core.types import Codes, Grid, Images

PROCESSORS = "transformers.models.imagegpt.image_processing"
# Functions of the peer, and their modules; the second needs torchvision.
SEARCHES = {"color_quantize": f"{PROCESSORS}_pil_imagegpt", "color_quantize_torch": f"{PROCESSORS}_imagegpt"}
BATCH = 128
EQUAL_ERROR = 1e-2  # by which the error of a fitted palette may be above the peer's, relative


@dataclass(frozen=True)
class PaletteSize(Size):
    """The number of images, their side in pixels, and the number of colors."""

    images: int
    side: int = 32
    colors: int = 512

    def label(self) -> str:
        return f"{self.images:,} images of {self.side}x{self.side}, {self.colors} colors"


def measure_encoding(size: PaletteSize, watch: Stopwatch) -> Measured:
    """Compare encoding in batches, or of a whole dataset with the construction of the lookup table.

    The peers encode one batch, and are compared per image.
    """
    palette, images = random_palette(size), networks.synthetic_photos(size.images, size.side)
    palette.build_table()
    part, checked = images[:BATCH], list[str]()

    def encode() -> Codes:
        chosen = palette
        if size.images > BATCH:
            chosen = Palette(palette.colors, palette.grid)
            chosen.build_table()
        return torch.cat([chosen.encode(each) for each in torch.split(images, BATCH)])

    def check(codes: object) -> None:
        assert isinstance(codes, Tensor)
        checked.append(require_no_larger_error(palette, part, palette.encode(part), codes))

    searches = {
        name: Work(call=search, items=len(part), check=check)
        for name, search in color_searches(palette, part).items()
    }
    own = {"": Work(call=encode, items=len(images))}
    timed = watch.alternate({OWN: own, image_gpt.library_name(): searches})
    return Measured(checked="; ".join(checked), times=timed.times, errors=timed.errors)


def random_palette(size: PaletteSize) -> Palette:
    colors = torch.randint(0, 256, (size.colors, 3), generator=generator(0, "bench/palette")).float()
    return Palette(colors, Grid(size.side, size.side))


def color_searches(palette: Palette, images: Images) -> dict[str, Callable[[], Tensor]]:
    """Return the installed searches of the peer on these images; each returns codes [B * N]."""
    clusters = palette.colors / 127.5 - 1
    pixels = rearrange(images / 127.5 - 1, "b c h w -> (b h w) c").contiguous()
    found: dict[str, Callable[[], Tensor]] = {}
    for name, module in SEARCHES.items():
        try:
            search = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        inputs = (pixels, clusters) if name.endswith("torch") else (pixels.numpy(), clusters.numpy())
        found[name] = partial(_codes, search, inputs)
    return found


def _codes(search: Callable[..., Any], inputs: tuple[Any, Any]) -> Tensor:
    return torch.as_tensor(search(*inputs))


def require_no_larger_error(palette: Palette, images: Images, ours: Codes, theirs: Tensor) -> str:
    """Return the squared error of our codes and of the peer's, of all pixels. Raises NumericsError if ours is
    larger.
    """
    codes = theirs.view_as(ours).long()
    pixels = rearrange(images, "b c h w -> b (h w) c").double()
    own, other = (
        float((palette.colors.double()[each[..., 0]] - pixels).square().sum()) for each in (ours, codes)
    )
    if own > other:
        raise NumericsError(f"the squared error of palette codes is {own:.6g}, the peer's {other:.6g}")
    different = int((ours != codes).sum())
    return f"error no larger than the peer's; {different:,} of {codes.numel():,} codes differ"


def measure_fit(size: PaletteSize, watch: Stopwatch) -> Measured:
    """Compare the fit of a palette with k-means on all pixels, at an equal or smaller error."""
    images = networks.synthetic_photos(size.images, size.side)
    pixels = rearrange(images, "b c h w -> (b h w) c").float()
    errors: dict[str, float] = {}

    def fit() -> Float[Tensor, "K 3"]:
        return kmeans.fit_palette(images, size.colors)

    def cluster() -> Float[Tensor, "K 3"]:
        from sklearn.cluster import KMeans  # noqa: PLC0415  its import takes a second

        return torch.from_numpy(
            KMeans(size.colors, n_init=1, random_state=0).fit(pixels.numpy()).cluster_centers_
        )

    def check(colors: object) -> None:
        assert isinstance(colors, Tensor)
        errors["peer"] = color_rmse(colors, images)

    own = color_rmse(fit(), images)
    sides = {
        OWN: {"": Work(call=fit)},
        f"scikit-learn {sklearn.__version__} KMeans": {"": Work(call=cluster, check=check)},
    }
    timed = watch.alternate(sides)
    checked = require_equal_error(own, errors["peer"])
    return Measured(checked=checked, times=timed.times, errors=timed.errors, item="fit")


def color_rmse(colors: Float[Tensor, "K 3"], images: Images) -> float:
    """Return the quantization error of a palette on images, in levels."""
    return quantization_error(Palette(colors.float().clamp(0, 255), Grid(1, 1)), images).rmse


def require_equal_error(ours: float, theirs: float) -> str:
    """Return both errors. Raises NumericsError if ours is more than one percent larger."""
    if not ours <= theirs * (1 + EQUAL_ERROR):
        raise NumericsError(f"the error of our palette is {ours:.4f} levels, the peer's {theirs:.4f}")
    return f"root-mean-square error {ours:.3f} levels, the peer's {theirs:.3f}"


SMALL = {"cpu": PaletteSize(128), TINY: PaletteSize(2, side=8, colors=16)}
FIT = {"cpu": PaletteSize(128), TINY: PaletteSize(2, side=8, colors=4)}
PEER = "transformers color_quantize"
WHOLE = "palette encoding of a dataset, including the table"
DATASET = {"cpu": PaletteSize(10_000)}
BENCHMARKS = (
    Benchmark("palette.encode", "palette encoding", PEER, measure_encoding, SMALL, image_gpt.NEEDS),
    Benchmark("palette.encode-dataset", WHOLE, PEER, measure_encoding, DATASET, image_gpt.NEEDS),
    Benchmark("palette.fit", "palette fit", "scikit-learn KMeans", measure_fit, FIT, ("sklearn",)),
)

"""Features: what a probe reads of an image: a vector for each layer of a network, or the pixels."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.core.device import Precision, autocast
from isopix.core.random import generator
from isopix.core.types import Images, Mask
from isopix.model.backbone import Backbone, FeatureKind
from isopix.model.network import Network
from isopix.model.pool import POOLS, Pool
from isopix.objectives.base import PretrainModel

DEVICE_BATCH = 128  # images a pass
CPU_POSITIONS = 8192  # a pass of few positions stays in a CPU's caches, which is nearly twice as fast
MASKED = 64  # images whose masks are drawn at once; what is drawn depends on it, so it is no setting

Stream = Literal["n", "h"]
KINDS: dict[Stream, FeatureKind] = {"n": "normed", "h": "residual"}

Features = Float[Tensor, "F B D"]
Progress = Callable[[int], None]


def blocks(
    network: Network,
    images: Images,
    *,
    hidden: Mask | None = None,
    stream: Stream = "n",
    pool: Pool = "mean",
    batch: int | None = None,
    precision: Precision = "fp32",
) -> Iterator[Features]:
    """The pooled tokens of all layers 0..L, float32 on the CPU, one pass a batch on the network's device.

    iGPT section 2.4: layer l's are the mean over positions of its n. Nothing is hidden from the network but
    `hidden`. Raises ValueError if there are no images.
    """
    if not len(images):
        raise ValueError("there are no images to read features of")
    device, backbone = network.device, network.backbone
    batch = batch or images_a_pass(backbone)
    for start in range(0, len(images), batch):
        part = images[start : start + batch].to(device)
        veil = None if hidden is None else hidden[start : start + batch].to(device)
        with torch.no_grad(), autocast(device, precision):
            layers = network.features(part, veil, kind=KINDS[stream])
            pooled = torch.stack([POOLS[pool](tokens, backbone.num_prefix_tokens) for tokens in layers])
        yield pooled.cpu()


def images_a_pass(backbone: Backbone) -> int:
    """How many images the network reads at once where nothing is trained."""
    few = max(1, CPU_POSITIONS // backbone.grid.positions)
    return few if next(backbone.parameters()).device.type == "cpu" else DEVICE_BATCH


def gather(parts: Iterable[Features], images: int, progress: Progress | None = None) -> Features:
    """All parts in one piece; `progress` is told how many images are done."""
    features, done = torch.empty(0), 0
    for part in parts:
        if not done:
            features = torch.empty(len(part), images, part.shape[2])
        features[:, done : done + part.shape[1]] = part
        done += part.shape[1]
        if progress:
            progress(done)
    return features


def extract(
    network: Network,
    images: Images,
    *,
    stream: Stream = "n",
    pool: Pool = "mean",
    batch: int | None = None,
    precision: Precision = "fp32",
    progress: Progress | None = None,
) -> Features:
    """The `blocks` of all images in one piece. Raises what they raise."""
    parts = blocks(network, images, stream=stream, pool=pool, batch=batch, precision=precision)
    return gather(parts, len(images), progress)


def draw_masks(model: PretrainModel, images: Images, *, seed: int, purpose: str) -> Mask:
    """An independent mask for each image, as the objective hides in training: a function of (seed, purpose,
    the image's place). Raises ValueError for an objective that hides nothing.
    """
    masks = []
    for place, start in enumerate(range(0, len(images), MASKED)):
        part = images[start : start + MASKED].to(model.network.device)
        hidden = model.make_batch(part, generator(seed, purpose, place)).mask
        if hidden is None:
            raise ValueError("this network's objective hides nothing; probe it without masks")
        masks.append(hidden.cpu())
    return torch.cat(masks)


def raw_pixels(images: Images) -> Float[Tensor, "1 B D"]:
    """The control that has learnt nothing: all pixels of an image, in [-1, 1], as one layer of features."""
    return rearrange(images, "b c h w -> 1 b (c h w)").float() / 127.5 - 1

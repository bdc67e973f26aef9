"""Features: what a probe reads of an image: a vector for each layer of a network, or the pixels."""

from collections.abc import Callable

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.core.device import Precision, autocast
from isopix.core.types import Images
from isopix.model.backbone import Backbone, Stream
from isopix.model.pool import POOLS, Pool

DEVICE_BATCH = 128  # images a pass
CPU_POSITIONS = 8192  # a pass of few positions stays in a CPU's caches, which is nearly twice as fast

Features = Float[Tensor, "F B D"]


def extract(
    backbone: Backbone,
    images: Images,
    *,
    stream: Stream = "n",
    pool: Pool = "mean",
    batch: int | None = None,
    precision: Precision = "fp32",
    progress: Callable[[int], None] | None = None,
) -> Features:
    """The pooled tokens of all layers 0..L, float32 on the CPU, one pass a batch on the network's device.

    iGPT section 2.4: layer l's are the mean over positions of its n. Nothing is hidden from the network.
    `progress` is told how many images are done. Raises ValueError if there are no images.
    """
    if not len(images):
        raise ValueError("there are no images to read features of")
    device = next(backbone.parameters()).device
    few = max(1, CPU_POSITIONS // backbone.grid.positions)
    batch = batch or (few if device.type == "cpu" else DEVICE_BATCH)
    features = torch.empty(0)
    for start in range(0, len(images), batch):
        part = images[start : start + batch].to(device)
        with torch.inference_mode(), autocast(device, precision):
            pooled = torch.stack([POOLS[pool](tokens) for tokens in backbone.features(part, stream=stream)])
        if start == 0:
            features = torch.empty(len(pooled), len(images), pooled.shape[2])
        features[:, start : start + len(part)] = pooled
        if progress:
            progress(start + len(part))
    return features


def raw_pixels(images: Images) -> Float[Tensor, "1 B D"]:
    """The control that has learnt nothing: all pixels of an image, in [-1, 1], as one layer of features."""
    return rearrange(images, "b c h w -> 1 b (c h w)").float() / 127.5 - 1

"""Memory of sampling: how many images fit at a time."""

import torch

from isopix.core.device import Precision, free_memory
from isopix.model.network import Network

CACHE_FRACTION = 0.5  # of the free memory, for the caches of all images


def images_at_once(network: Network, precision: Precision) -> int:
    """Return how many images to sample at a time, at least one."""
    return max(1, int(CACHE_FRACTION * free_memory(network.device)) // cache_bytes(network, precision))


@torch.inference_mode()
def cache_bytes(network: Network, precision: Precision) -> int:
    """Return the bytes that the caches of all blocks hold for an image."""
    backbone, codec = network.backbone, network.codec
    shape = (1, 3, codec.grid.rows * codec.patch_size, codec.grid.cols * codec.patch_size)
    blank = torch.zeros(shape, dtype=torch.uint8, device=network.device)
    caches = backbone.new_caches(precision)
    tokens = backbone.embed(network.inputs_of_codes(codec.encode(blank)))
    backbone.decode_step(tokens[:, :1], caches)
    return sum(cache.num_bytes for cache in caches)

"""Memory of sampling and completion: how many images fit at a time."""

import torch

from isopix.core.device import Precision
from isopix.core.memory import eval_batch_size, free_memory
from isopix.model.network import Network
from isopix.model.stems.base import Inputs

CACHE_FRACTION = 0.5  # of the free memory, for the caches of all images, or the logits
LOGIT_BYTES = 32  # of each: logits, their logarithms, probabilities, and their sums in float64
TOKEN_COPIES = 32  # of width float32 numbers, which a block holds of each token


def images_at_once(network: Network, precision: Precision | None) -> int:
    """Return how many images to sample at a time, at least one."""
    return max(1, int(CACHE_FRACTION * free_memory(network.device)) // cache_bytes(network, precision))


@torch.inference_mode()
def images_per_forward(network: Network) -> int:
    """Return of how many images to predict all codes at a time, at least one; no more than are fast."""
    codec, width = network.codec, network.backbone.embed(_blank(network)).shape[-1]
    logits, tokens = LOGIT_BYTES * codec.num_codes * codec.vocab_size, 4 * TOKEN_COPIES * width
    bytes_each = codec.grid.positions * (logits + tokens)
    fit = int(CACHE_FRACTION * free_memory(network.device)) // bytes_each
    return max(1, min(fit, eval_batch_size(codec.grid.positions, network.device)))


@torch.inference_mode()
def cache_bytes(network: Network, precision: Precision | None) -> int:
    """Return the bytes that the caches of all blocks hold for an image."""
    caches = network.backbone.new_caches(precision)
    tokens = network.backbone.embed(_blank(network))
    network.backbone.decode_step(tokens[:, :1], caches)
    return sum(cache.num_bytes for cache in caches)


def _blank(network: Network) -> Inputs:
    """What the stem reads of a black image."""
    codec = network.codec
    shape = (1, 3, codec.grid.rows * codec.patch_size, codec.grid.cols * codec.patch_size)
    return network.inputs_of_codes(codec.encode(torch.zeros(shape, dtype=torch.uint8, device=network.device)))

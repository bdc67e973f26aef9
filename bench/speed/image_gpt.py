"""Peer of the benchmarks: Hugging Face's ImageGPT, with the size and weights of an isopix network."""

import importlib.metadata
from typing import Any

import torch
from jaxtyping import Int
from speed.numerics import require_close
from torch import Tensor, nn

from isopix.core.types import Images
from isopix.interop import imagegpt
from isopix.model.network import Network

NEEDS = ("transformers",)
LOGIT_TOLERANCE = 1e-3  # of float32 logits, as a fraction of the largest


def library_name() -> str:
    return f"transformers {importlib.metadata.version('transformers')}"


def with_weights_of(network: Network) -> nn.Module:
    """Return the exported model: the same weights, and no dropout (its default is 0.1)."""
    import transformers  # noqa: PLC0415  it takes seconds to load, and is an extra

    exported = imagegpt.export_imagegpt(network)
    settings: dict[str, Any] = {**exported.files["config.json"], "use_cache": False}
    model: nn.Module = transformers.ImageGPTForCausalImageModeling(
        transformers.ImageGPTConfig.from_dict(settings)
    )
    model.load_state_dict(dict(exported.tensors))
    return model.to(network.device)


def shift_right(network: Network, images: Images) -> Int[Tensor, "B N"]:
    """Return the input ids: the start token, and all codes but the last."""
    codes = network.codec.encode(images)[..., 0]
    start = torch.full((len(codes), 1), network.codec.vocab_size, device=codes.device)
    return torch.cat([start, codes[:, :-1]], 1)


@torch.no_grad()
def require_equal_logits(network: Network, other: nn.Module, images: Images) -> str:
    """Return how well the logits of both agree in float32. Raises NumericsError if they do not."""
    ours = network(network.inputs_of(images))[:, :, 0]
    theirs = other(input_ids=shift_right(network, images)).logits
    return require_close("logits", theirs, ours, LOGIT_TOLERANCE)

"""Peer of the benchmarks: Hugging Face's ImageGPT, with the size and weights of an isopix network."""

import torch
import transformers
from torch import nn

from isopix.interop.huggingface import convert as huggingface
from isopix.model.network import Network

VERSION = transformers.__version__


def convert(network: Network) -> nn.Module:
    """Return the exported model: the same weights, and no dropout (its default is 0.1)."""
    settings = huggingface.exported_config(network) | {"use_cache": False}
    model = transformers.ImageGPTForCausalImageModeling(transformers.ImageGPTConfig.from_dict(settings))
    model.to(network.head.project.weight.dtype).load_state_dict(huggingface.exported_state_dict(network))
    return model.to(network.device)


def shift_right(network: Network, images: torch.Tensor) -> torch.Tensor:
    """Return the input ids: the start token, and all codes but the last."""
    codes = network.codec.encode(images)[..., 0]
    start = torch.full((len(codes), 1), network.codec.vocab_size, device=codes.device)
    return torch.cat([start, codes[:, :-1]], 1)

"""The named peer: Hugging Face's ImageGPT, of the same size and with the same weights as one of our
networks.
"""

import torch
import transformers
from torch import nn

from isopix.interop.huggingface import convert as huggingface
from isopix.objectives.network import Network

VERSION = transformers.__version__


def twin(network: Network) -> nn.Module:
    """Their model as our export makes it: the same weights, and no dropout (its default is 0.1)."""
    settings = huggingface.exported_config(network) | {"use_cache": False}
    model = transformers.ImageGPTForCausalImageModeling(transformers.ImageGPTConfig.from_dict(settings))
    model.to(network.head.project.weight.dtype).load_state_dict(huggingface.exported_state_dict(network))
    return model.to(network.device)


def shifted(network: Network, images: torch.Tensor) -> torch.Tensor:
    """Their input ids: the start symbol, and all codes but the last."""
    codes = network.codec.encode(images)[..., 0]
    start = torch.full((len(codes), 1), network.codec.levels, device=codes.device)
    return torch.cat([start, codes[:, :-1]], 1)

"""The named peer: Hugging Face's ImageGPT, of the same size and with the same weights as one of our
networks.
"""

import torch
import transformers
from torch import nn

from isopix.objectives.network import Network

VERSION = transformers.__version__


def twin(network: Network, heads: int) -> nn.Module:
    """Their model, dropout off (its default is 0.1), with the weights of ours."""
    colours, width = network.codec.levels, network.head.project.in_features
    config = transformers.ImageGPTConfig(
        vocab_size=colours + 1,
        n_positions=network.codec.grid.positions,
        n_embd=width,
        n_layer=network.backbone.depth,
        n_head=heads,
        activation_function="quick_gelu",
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        use_cache=False,
    )
    model = transformers.ImageGPTForCausalImageModeling(config).to(network.head.project.weight.dtype)
    backbone = network.backbone
    named = {
        "transformer.wte.weight": torch.cat([backbone.stem.tables[0].weight, backbone.masking.start[None]]),
        "transformer.wpe.weight": backbone.positions.table,
        "transformer.ln_f.weight": backbone.norm.weight,
        "lm_head.weight": network.head.project.weight,
    }
    for layer, block in enumerate(backbone.blocks):
        here = f"transformer.h.{layer}"
        named |= {
            f"{here}.ln_1.weight": block.norm1.weight,
            f"{here}.ln_2.weight": block.norm2.weight,
            f"{here}.attn.c_attn.weight": block.attention.qkv.weight.T,
            f"{here}.attn.c_proj.weight": block.attention.out.weight.T,
            f"{here}.mlp.c_fc.weight": block.mlp.up.weight.T,
            f"{here}.mlp.c_proj.weight": block.mlp.down.weight.T,
        }
    state = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    model.load_state_dict(state | {name: value.detach().clone() for name, value in named.items()})
    return model.to(network.device)


def shifted(network: Network, images: torch.Tensor) -> torch.Tensor:
    """Their input ids: the start symbol, and all codes but the last."""
    codes = network.codec.encode(images)[..., 0]
    start = torch.full((len(codes), 1), network.codec.levels, device=codes.device)
    return torch.cat([start, codes[:, :-1]], 1)

"""Peer of the benchmarks: the networks of the inductive-bias study in plain PyTorch.

Convolutions work on images; every position gets logits, and the masked ones are in the loss.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.model.network import Network
from isopix.recipes.recipe import Recipe


class Conv(nn.Module):
    """U = X + GELU(Conv(LN X)); Y = U + GELU(Conv(LN U))."""

    def __init__(self, recipe: Recipe):
        super().__init__()
        self.rows = recipe.grid.rows
        self.norm1, self.norm2 = nn.LayerNorm(recipe.model.width), nn.LayerNorm(recipe.model.width)
        self.conv1 = nn.Conv2d(recipe.model.width, recipe.model.width, 3, padding="same")
        self.conv2 = nn.Conv2d(recipe.model.width, recipe.model.width, 3, padding="same")

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.gelu(self.convolve(self.conv1, self.norm1(x)))
        return x + F.gelu(self.convolve(self.conv2, self.norm2(x)))

    def convolve(self, conv: nn.Conv2d, x: Tensor) -> Tensor:
        batch, count, width = x.shape
        image = x.transpose(1, 2).reshape(batch, width, self.rows, count // self.rows)
        return conv(image).flatten(2).transpose(1, 2)


class Mixer(nn.Module):
    """U = X + W2 GELU(W1 LN X); Y = (U' + W4 GELU(W3 (LN U)'))'."""

    def __init__(self, recipe: Recipe):
        super().__init__()
        count, width = recipe.grid.positions, recipe.model.width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.positions = nn.Sequential(nn.Linear(count, count), nn.GELU(), nn.Linear(count, count))
        self.channels = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.positions(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Transformer(nn.Module):
    """U = X + MHA(LN X); Y = (U' + W2 GELU(W1 (LN U)'))'."""

    def __init__(self, recipe: Recipe):
        super().__init__()
        width = recipe.model.width
        self.heads = getattr(recipe.model.block, "heads", 1)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.channels = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, count, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, count, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, count, width))
        return x + self.channels(self.norm2(x))


BLOCKS: dict[str, Any] = {"convolution": Conv, "mixer": Mixer, "transformer": Transformer}


class Plain(nn.Module):
    """Network that returns the mean loss over the masked pixels of each image, then over images."""

    def __init__(self, recipe: Recipe):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(256, recipe.model.width) for _ in range(3))
        learned = recipe.model.positions.kind == "learned"
        self.pos_embed = (
            nn.Parameter(torch.zeros(recipe.grid.positions, recipe.model.width)) if learned else None
        )
        self.blocks = nn.Sequential(
            *(BLOCKS[recipe.model.block.kind](recipe) for _ in range(recipe.model.depth))
        )
        self.norm = nn.LayerNorm(recipe.model.width)
        self.head = nn.Linear(recipe.model.width, 3 * 256, bias=False)

    def logits(self, levels: Tensor, mask: Tensor) -> Tensor:
        """Return the logits [B N 3 * 256] of every position."""
        x = sum(table(levels[..., i]) for i, table in enumerate(self.tables)) * ~mask
        if self.pos_embed is not None:
            x = x + self.pos_embed
        return self.head(self.norm(self.blocks(x)))

    def forward(self, images: Tensor, mask: Tensor) -> Tensor:
        levels = images.flatten(2).transpose(1, 2).long()
        logits = self.logits(levels, mask)
        losses = F.cross_entropy(logits.view(-1, 256), levels.reshape(-1), reduction="none")
        losses = losses.view(levels.shape) * mask
        return (losses.sum((1, 2)) / (3 * mask.sum((1, 2)))).mean()


# Parameter names here and in isopix, in the order of replacement.
NAMES = (
    ("tables.", "backbone.stem.tables."),
    ("pos_embed", "backbone.positions.table"),
    ("blocks.", "backbone.blocks."),
    ("positions.0", "token_mlp.up"),
    ("positions.2", "token_mlp.down"),
    ("channels.0", "mlp.up"),
    ("channels.2", "mlp.down"),
    (".qkv", ".attention.qkv"),
    (".out.", ".attention.out."),
    ("head.", "head.project."),
)


def plain_network(network: Network, recipe: Recipe) -> Plain:
    """Return the plain network with the same weights, on the same device."""
    plain, weights = Plain(recipe), dict(network.named_parameters())
    with torch.no_grad():
        for name, tensor in plain.state_dict().items():
            tensor.copy_(_weight(name, weights).view_as(tensor))
    return plain.to(network.device)


def _weight(name: str, weights: dict[str, Tensor]) -> Tensor:
    for here, there in NAMES:
        name = name.replace(here, there)
    return weights[f"backbone.{name}" if name.startswith("norm") else name]

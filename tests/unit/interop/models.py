"""Small networks with random weights, and their folders as Hugging Face has them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from isopix.interop import imagegpt
from isopix.interop.imported_model import ImportedModel
from isopix.model.network import Network
from isopix.recipes import registry
from tests.laws.cases import randomize

COLORS = 32
HEAD = "lm_head.weight"
Tensors = dict[str, Tensor]


def palette(colors: int = COLORS) -> Tensor:
    """Distinct colors, levels of 0..255 with fractions."""
    step = torch.arange(colors)
    found = torch.stack([(step * 8) % 256, (step * 37) % 256, (255 - step * 5) % 256], 1) * 0.99 + 0.3
    found[1, 0] = 8355905 / 65536  # near gray, where float32 is too coarse for their range of -1 to 1
    return found


def network(*words: str, name: str = "igpt.digits", deviation: float = 0.3) -> Network:
    """A recipe's network, changed by `path=value` words, every weight drawn anew."""
    small = ["depth=2", "width=16", "data.cols=6", f"codec.num_colors={COLORS}"]
    recipe = registry.resolve(name, settings=[*small, *words]).recipe
    net = recipe.build(recipe.model.codec.build(recipe.grid, palette(recipe.model.codec.num_colors)))
    randomize(net, torch.Generator().manual_seed(0), deviation)
    return net.eval()


def folder(path: Path, net: Network | None = None) -> Path:
    """The network's folder, as we write it."""
    imagegpt.export_imagegpt(net or network()).write(path, card="# A card\n")
    return path


def revived(imported: ImportedModel) -> Network:
    """The network of an import."""
    return imported.network().eval()


def change_json(path: Path, **values: Any) -> None:
    """Set values of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_weights(folder: Path, change: Callable[[Tensors], Any]) -> None:
    """Let `change` alter the tensors of `model.safetensors`."""
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"format": "pt"})


def codes(net: Network, images: int = 3) -> Tensor:
    """Random codes [B N]."""
    draw = torch.Generator().manual_seed(1)
    return torch.randint(0, net.codec.vocab_size, (images, net.codec.grid.positions), generator=draw)

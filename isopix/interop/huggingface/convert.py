"""Hugging Face's ImageGPT: their folder of settings, weights and palette, read as ours, written from ours."""

import os
import shutil
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop.huggingface.imagegpt import (
    CONFIG,
    EXPANSION,
    FIXED,
    PROCESSOR,
    Described,
    biases_of,
    colours_of,
    described_by,
    grid_of,
    parts_of,
    require_head,
)
from isopix.interop.imported_model import Imported, checked, translate
from isopix.interop.name_tables import HUGGING_FACE, Account, rows
from isopix.interop.weight_files import Weights, open_weights
from isopix.model.blocks import ACTIVATIONS
from isopix.model.network import Network
from isopix.objectives.autoregressive import Autoregressive
from isopix.storage import atomic, safetensors_io


def read(folder: Path, colours: Float[Tensor, "K 3"] | None = None, *, grid: Grid | None = None) -> Imported:
    """The model in a folder as `save_pretrained` leaves it, with its own palette unless `colours` are given.

    `colours` are levels of 0..255. Without `grid` positions stand as the image processor says, or else in a
    square. Weights are read tensor by tensor, once all of them are known to be there
    and of the right shape. Raises ValueError, in one line that names the setting, tensor or file, for
    anything that ours would not compute alike, and for files that are damaged or hostile.
    """
    try:
        return _read(folder, colours, grid)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def write(folder: Path, network: Network, *, card: str) -> None:
    """A folder that `transformers` loads as model and image processor; `card` becomes its `README.md`.

    It is there whole or not at all. Raises ValueError for a network that their class cannot run, or a folder
    that is not empty; RuntimeError if the disk is full.
    """
    tensors = weights(network)
    files = {CONFIG: config(network), PROCESSOR: processor(network)}
    folder = folder.resolve()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"{folder} is there already; a model is written to a folder that is new or empty")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".tmp-{folder.name}-{os.getpid()}")
    with atomic.report_disk_full(f"model {folder}", folder.parent):
        try:
            temporary.mkdir()
            safetensors_io.write_tensors(temporary / "model.safetensors", tensors, {"format": "pt"})
            for name, values in files.items():
                atomic.write_bytes(temporary / name, atomic.json_bytes(values))
            atomic.write_bytes(temporary / "README.md", card.encode())
            atomic.fsync_folder(temporary)
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        atomic.fsync_folder(folder.parent)


def config(network: Network) -> dict[str, Any]:
    """The settings of their class for this network; no dropout, which theirs has unless told otherwise.

    Raises ValueError for a network that is no autoregressive Image GPT.
    """
    theirs, block = weights(network), network.backbone.blocks[0]
    colours, width = theirs["lm_head.weight"].shape
    inner = theirs["transformer.h.0.mlp.c_fc.weight"].shape[1]
    named = {function: name for name, function in ACTIVATIONS.items()}
    return {
        "architectures": ["ImageGPTForCausalImageModeling"],
        "model_type": "imagegpt",
        "vocab_size": colours + 1,  # the last is the start vector
        "n_positions": network.backbone.grid.positions,
        "n_embd": width,
        "n_layer": network.backbone.depth,
        "n_head": block.attention.heads,
        "n_inner": None if inner == EXPANSION * width else inner,
        "activation_function": named[block.mlp.activation],
        "layer_norm_epsilon": block.norm1.eps,
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "reorder_and_upcast_attn": False,
        **FIXED,
        "dtype": str(theirs["lm_head.weight"].dtype).removeprefix("torch."),
    }


def processor(network: Network) -> dict[str, Any]:
    """The settings of their image processor: this palette, and images of the network's own size."""
    assert isinstance(network.codec, Palette)
    grid = network.backbone.grid
    return {
        "image_processor_type": "ImageGPTImageProcessor",
        "clusters": (network.codec.colors.double() / 127.5 - 1).tolist(),
        "size": {"height": grid.rows, "width": grid.cols},
        "do_resize": True,
        "resample": 2,  # bilinear, as OpenAI's checkpoints have it there
        "do_normalize": True,
        "do_color_quantize": True,
    }


def weights(network: Network) -> dict[str, Tensor]:
    """The weights by their names and in their layouts, mostly views of ours, with the biases of theirs at 0.

    Raises ValueError for a network that is no autoregressive Image GPT.
    """
    _refuse_others(network)
    ours = {name: tensor.detach() for name, tensor in network.tensors().items()}
    theirs: dict[str, Tensor] = {}
    for row in rows(HUGGING_FACE, network.backbone.depth):
        made = row.write(tuple(ours[name] for name in row.ours))
        theirs |= zip(row.theirs, made, strict=True)
    shapes = {name: tuple(tensor.shape) for name, tensor in theirs.items()}
    zero = theirs["lm_head.weight"].new_zeros
    return theirs | {name: zero(shape) for name, shape in biases_of(shapes).items()}


def _read(folder: Path, colours: Float[Tensor, "K 3"] | None, grid: Grid | None) -> Imported:
    if not folder.is_dir():
        raise ValueError("is no folder")
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{CONFIG} is missing; this is no folder of a Hugging Face model")
    described = described_by(atomic.read_json(folder / CONFIG))
    images = atomic.read_json(folder / PROCESSOR) if (folder / PROCESSOR).is_file() else {}
    stored = open_weights(folder)
    require_head(stored.shapes)  # before anything that a user could mend: such a model cannot be read at all
    grid = grid_of(described.positions, images.get("size"), grid)
    colours = colours_of(images.get("clusters")) if colours is None else colours
    if len(colours) != described.levels:
        raise ValueError(
            f"the palette has {len(colours)} colours; vocab_size {described.levels + 1} needs "
            f"{described.levels} and a start symbol"
        )
    tensors, accounts = _translated(stored, described)
    return Imported(
        origin=f"Hugging Face {folder.resolve().name}",
        depth=described.depth,
        width=described.width,
        grid=grid,
        block=described.block,
        objective=Autoregressive(),
        colours=colours,
        step=0,
        tensors=tensors,
        accounts=tuple(accounts),
    )


def _translated(stored: Weights, described: Described) -> tuple[dict[str, Tensor], list[Account]]:
    """Our tensors, and what became of each of theirs."""
    names, shapes, biases, masks = parts_of(stored.shapes, described)
    for name, shape in biases.items():
        if checked(names[name], stored.read(names[name]), shape).any():
            raise ValueError(f"tensor '{names[name]}' is a bias that is not zero; our Image GPT has none")
    table = rows(HUGGING_FACE, described.depth)
    tensors, accounts = translate(table, shapes, lambda name: stored.read(names[name]))
    return tensors, [
        *(account._replace(theirs=names[account.theirs]) for account in accounts),
        *(Account(names[name], skipped="a bias, all of it zero") for name in biases),
        *(Account(names[name], skipped="the causal mask, which is no weight") for name in masks),
    ]


def _refuse_others(network: Network) -> None:
    if not network.objective.can_sample:
        raise ValueError(
            "a masked network cannot be an ImageGPT of Hugging Face's, whose attention is causal"
        )
    if not isinstance(network.codec, Palette):
        raise ValueError("a network without a palette cannot be an ImageGPT of Hugging Face's")
    placed = {name for row in rows(HUGGING_FACE, network.backbone.depth) for name in row.ours}
    own = {name for name in network.tensors() if not name.startswith("codec.")}
    for name in sorted(own ^ placed):
        state = "has no place in" if name in own else "is missing, and is needed by"
        raise ValueError(f"tensor '{name}' {state} an ImageGPT of Hugging Face's")

"""ImportedModel: a model of another library, read and converted to the names and layouts of isopix."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import starmap

import torch
from torch import Tensor

from isopix.codecs import PaletteSpec
from isopix.codecs.base import Codec
from isopix.core.types import Grid
from isopix.data.dataset import DataConfig
from isopix.interop.mmap_alloc import mmap_alloc
from isopix.interop.name_tables import TensorReport, WeightMapping
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.network import Network
from isopix.model.spec import ModelSpec
from isopix.objectives.base import ObjectiveSpec
from isopix.recipes.recipe import Recipe
from isopix.storage.atomic import MAX_JSON, json_bytes
from isopix.train.config import TrainConfig

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class ImportedModel:
    """Weights and recipe of an imported model; `tensor_reports` lists every tensor of the source.

    `tensors` are float32 on the CPU, named as in `Network.tensors()` without those of the codec, and
    `classifier` those of a class head, whose outputs are named `classes`.
    """

    origin: str  # such as `Hugging Face openai/imagegpt-small` or `OpenAI model.ckpt-131000`
    recipe: Recipe  # its dataset is not known
    codec: Codec
    step: int  # training steps, 0 if unknown
    tensors: Mapping[str, Tensor]
    tensor_reports: tuple[TensorReport, ...]
    classifier: Mapping[str, Tensor] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    def network(self) -> Network:
        """Return the network with these weights. Raises ValueError if a tensor does not fit."""
        buffers = {f"codec.{name}": tensor for name, tensor in self.codec.state_dict().items()}
        return self.recipe.restore(self.codec, {**self.tensors, **buffers})


def igpt_recipe(
    depth: int, width: int, *, grid: Grid, block: TransformerSpec, objective: ObjectiveSpec, num_colors: int
) -> Recipe:
    """Return the recipe of an imported Image GPT; unknown training settings keep their defaults."""
    return Recipe(
        name=f"igpt.{depth}x{width}",
        data=DataConfig(rows=grid.rows, cols=grid.cols),
        model=ModelSpec(codec=PaletteSpec(num_colors=num_colors), depth=depth, width=width, block=block),
        objective=objective,
        train=TrainConfig(precision="fp32"),
    )


def squashed(imported: ImportedModel) -> ImportedModel:
    """Return the model with images resized as the image processors of `transformers` do: bilinearly, and
    without regard to their aspect ratio.
    """
    data = replace(imported.recipe.data, crop="squash", resample="bilinear")
    return replace(imported, recipe=imported.recipe.updated(data=data))


def grid_of(positions: int, given: Grid | None) -> Grid:
    """Return the given grid, or the square one. Raises ValueError if it does not have that many positions."""
    grid = given or Grid(math.isqrt(positions), math.isqrt(positions))
    if grid.positions == positions:
        return grid
    if given is None:
        raise ValueError(f"its {positions} positions are not a square; give --rows and --cols")
    raise ValueError(
        f"the model has {positions} positions; a grid of {grid.rows} x {grid.cols} has {grid.positions}"
    )


def check_report_size(reports: Iterable[TensorReport]) -> None:
    """Raise ValueError if the list of tensors is too long to be saved; called before any tensor is read."""
    size = len(json_bytes({"tensors": [report._asdict() for report in reports]}))
    if size > MAX_JSON // 2:  # the other half is for the rest of the record
        raise ValueError(f"the list of tensors has {size:,} bytes; allowed: at most {MAX_JSON // 2:,}")


def convert_tensors(
    table: Iterable[WeightMapping], shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], Tensor]
) -> tuple[dict[str, Tensor], list[TensorReport]]:
    """Return the converted tensors and a report of each source tensor; the tensors of one mapping at a time
    are held twice.

    `shapes` are the required shapes of the source tensors. Raises ValueError that names a tensor of another
    shape.
    """
    converted: dict[str, Tensor] = {}
    reports: list[TensorReport] = []
    for mapping in table:
        given = [check_tensor(name, read(name), shapes[name]) for name in mapping.source]
        single = tuple(starmap(_to_float32, zip(mapping.source, given, strict=True)))
        for name, tensor in zip(mapping.target, mapping.to_target(single), strict=True):
            converted[name] = mmap_alloc(tensor.shape, torch.float32).copy_(tensor)
        reports += [
            TensorReport(name, mapping.target, rounded=_rounded_from(*pair))
            for name, *pair in zip(mapping.source, given, single, strict=True)
        ]
    return converted, reports


def check_tensor(name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor. Raises ValueError if it has another shape or is not floating point."""
    if tuple(tensor.shape) != shape:
        raise ValueError(f"tensor '{name}' has shape {tuple(tensor.shape)}; this model needs {shape}")
    if tensor.dtype not in DTYPES:
        raise ValueError(f"tensor '{name}' has dtype {tensor.dtype}; weights must be floating point")
    return tensor


def _to_float32(name: str, tensor: Tensor) -> Tensor:
    """Return the tensor in float32. Raises ValueError if an element is not finite in float32."""
    single = tensor
    if tensor.dtype != torch.float32:
        single = mmap_alloc(tensor.shape, torch.float32).copy_(tensor)
    if not all(bound.isfinite() for bound in single.aminmax()):
        raise ValueError(f"tensor '{name}' has elements that are not finite in float32")
    return single


def _rounded_from(given: Tensor, single: Tensor) -> str:
    """Return `float64` if conversion to float32 changed the values, else an empty string."""
    exact = given.dtype != torch.float64 or torch.equal(given, single.double())
    return "" if exact else "float64"

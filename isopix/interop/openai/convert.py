"""Import OpenAI's Image GPT checkpoints, autoregressive and masked, without TensorFlow.

Depth, width, heads, positions and number of colors are inferred from the shapes of the variables. A
checkpoint with a start token (`sos`) is autoregressive, one without is masked.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop.imported_model import (
    ImportedModel,
    check_report_size,
    convert_tensors,
    grid_of,
    igpt_recipe,
)
from isopix.interop.name_tables import OPENAI_START, TensorReport, WeightMapping, expand_layers, openai_table
from isopix.interop.openai.tf_checkpoint import TFCheckpoint
from isopix.model.blocks.transformer import TransformerSpec
from isopix.objectives.objectives import Autoregressive, Masked

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

# Variables that are not part of the model: a pattern of one component of the name, and the reason.
SKIP_RULES = (
    (r"clf", "classifier head"),
    (r"adam_[mv]|Adam(_\d+)?|AdamWeightDecayOptimizer(_\d+)?|beta[12]_power(_\d+)?", "optimizer state"),
    (r"global_step|_step", "step counter"),
)
LAYER = re.compile(r"h(0|[1-9]\d{0,3})/")
STEP = re.compile(r"-(\d{1,12})$")


class InferredSizes(NamedTuple):
    """Model sizes inferred from the shapes of the variables."""

    colors: int
    width: int
    positions: int
    heads: int
    depth: int
    has_start: bool

    def mappings(self, scope: str) -> tuple[WeightMapping, ...]:
        """Return every mapping of this model, with source names inside the scope."""
        table = (*openai_table(self.heads), *([OPENAI_START] if self.has_start else []))
        return tuple(
            mapping._replace(source=tuple(scope + name for name in mapping.source))
            for mapping in expand_layers(table, self.depth)
        )

    def shape(self, name: str) -> Shape:
        """Return the shape of a variable, given its name without the scope (OpenAI's model.py)."""
        width = self.width
        shapes = {
            "wte": (self.colors, width),
            "wtet": (self.colors, width),
            "wpe": (self.positions, width),
            "mlp/c_fc/w": (width, 4 * width),
            "mlp/c_proj/w": (4 * width, width),
        }
        if "/attn/" in name:
            return (self.heads, width // self.heads, width)
        return shapes.get(LAYER.sub("", name), (width,))


def read_checkpoint(prefix: Path, colors: Float[Tensor, "K 3"], *, grid: Grid | None = None) -> ImportedModel:
    """Import the model of a checkpoint, given by its prefix, its `.index` file or its folder.

    `colors` is its palette, levels of 0..255. Tensors are read one mapping at a time, so that memory stays
    close to the size of the model. The checkpoint does not state the image shape: without `grid` it is
    square. Raises ValueError that names the file, and the variable that is missing, unknown, damaged or
    of another shape.
    """
    checkpoint = TFCheckpoint.open(prefix)
    try:
        return _import(checkpoint, colors, grid)
    except ValueError as error:
        named = str(checkpoint.prefix) in str(error)  # by TFCheckpoint, which names the file
        raise ValueError(str(error) if named else f"checkpoint {checkpoint.prefix}: {error}") from None


def _import(checkpoint: TFCheckpoint, colors: Float[Tensor, "K 3"], grid: Grid | None) -> ImportedModel:
    skipped = {name: rule for name in checkpoint.entries if (rule := _skip_reason(name))}
    given = {name: entry.shape for name, entry in checkpoint.entries.items() if name not in skipped}
    scope = _scope(given)
    sizes = _sizes(given, scope)
    if sizes.colors != len(colors):
        raise ValueError(f"it has {sizes.colors} colors; the palette has {len(colors)}")
    table = sizes.mappings(scope)
    shapes = {name: sizes.shape(name.removeprefix(scope)) for mapping in table for name in mapping.source}
    _check_shapes(given, shapes)
    image_grid = grid_of(sizes.positions, grid)
    skipped_reports = tuple(TensorReport(name, skipped=rule) for name, rule in skipped.items())
    check_report_size(
        [
            *(TensorReport(name, mapping.target) for mapping in table for name in mapping.source),
            *skipped_reports,
        ]
    )
    tensors, tensor_reports = convert_tensors(
        table, shapes, lambda name: checkpoint.read(name).view(shapes[name])
    )
    step = STEP.search(checkpoint.prefix.name)
    return ImportedModel(
        origin=f"OpenAI {checkpoint.prefix.name}",
        recipe=igpt_recipe(
            sizes.depth,
            sizes.width,
            grid=image_grid,
            block=TransformerSpec(heads=sizes.heads),
            objective=Autoregressive() if sizes.has_start else Masked(),
            num_colors=len(colors),
        ),
        codec=Palette(colors, image_grid),
        step=int(step[1]) if step else 0,
        tensors=tensors,
        tensor_reports=(*tensor_reports, *skipped_reports),
    )


def _skip_reason(name: str) -> str:
    """Return why a variable is skipped; an empty string if it is not."""
    found = (
        rule for pattern, rule in SKIP_RULES if any(re.fullmatch(pattern, part) for part in name.split("/"))
    )
    return next(found, "")


def _scope(names: Iterable[str]) -> str:
    """Return the prefix of every name: `model/` in the released checkpoints."""
    scopes = [name.removesuffix("wte") for name in names if name.split("/")[-1] == "wte"]
    if len(scopes) != 1:
        found = ", ".join(repr(scope) for scope in scopes[:5]) or "none"
        raise ValueError(f"it has {len(scopes)} variables 'wte' (in scopes: {found}); an Image GPT has one")
    return scopes[0]


def _sizes(given: Shapes, scope: str) -> InferredSizes:
    colors, width = _squeezed_shape(given, f"{scope}wte", 2)
    positions, _ = _squeezed_shape(given, f"{scope}wpe", 2)
    heads, *_ = _squeezed_shape(given, f"{scope}h0/attn/q_proj", 3)
    if min(colors, width, positions, heads) < 1:
        raise ValueError(f"it has {colors} colors, width {width}, {positions} positions and {heads} heads")
    found = (LAYER.match(name.removeprefix(scope)) for name in given)
    layers = {int(layer[1]) for layer in found if layer}
    for layer in range(len(layers)):
        if layer not in layers:
            raise ValueError(f"layer {layer} is missing; the last layer is {max(layers)}")
    return InferredSizes(colors, width, positions, heads, len(layers), f"{scope}sos" in given)


def _squeezed_shape(given: Shapes, name: str, dimensions: int) -> Shape:
    """Return the shape of a variable without superfluous leading dimensions of 1."""
    if name not in given:
        raise ValueError(f"variable {name!r} is missing")
    shape = given[name]
    while len(shape) > dimensions and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != dimensions:
        raise ValueError(f"variable {name!r} has shape {given[name]}; expected {dimensions} dimensions")
    return shape


def _check_shapes(given: Shapes, wanted: Shapes) -> None:
    """Raise ValueError for the first variable that is missing, unknown or of another shape."""
    for name, shape in wanted.items():
        if _squeezed_shape(given, name, len(shape)) != shape:
            raise ValueError(f"variable {name!r} has shape {given[name]}; this model needs {shape}")
    for name in sorted(given.keys() - wanted.keys()):
        raise ValueError(f"variable {name!r} is unknown")

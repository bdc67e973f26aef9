"""OpenAI's Image GPT checkpoints, autoregressive and masked, read without TensorFlow.

What a checkpoint does not say in words the shapes of its variables do: depth, width, heads, positions and
colours. One with a start vector (`sos`) is autoregressive, one without is masked.
"""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Grid
from isopix.interop.imported_model import Imported, as_many, check_accounts, translate
from isopix.interop.name_tables import OPENAI_START, Account, Row, openai, rows
from isopix.interop.openai.tf_checkpoint import Bundle
from isopix.model.blocks import TransformerSpec
from isopix.objectives.autoregressive import Autoregressive
from isopix.objectives.masked import Masked

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

# Variables that are no part of the model, known by one part of their name, and what they are.
RULES = (
    (r"clf", "classifier head"),
    (r"adam_[mv]|Adam(_\d+)?|AdamWeightDecayOptimizer(_\d+)?|beta[12]_power(_\d+)?", "optimizer's state"),
    (r"global_step|_step", "step counter"),
)
LAYER = re.compile(r"h(0|[1-9]\d{0,3})/")
STEP = re.compile(r"-(\d{1,12})$")


class Sizes(NamedTuple):
    """What the shapes say of a model."""

    colours: int
    width: int
    positions: int
    heads: int
    depth: int
    start: bool

    def rows(self, scope: str) -> tuple[Row, ...]:
        """Every row of the table that this model has, their names inside the scope."""
        table = (*openai(self.heads), *([OPENAI_START] if self.start else []))
        return tuple(
            row._replace(theirs=tuple(scope + name for name in row.theirs)) for row in rows(table, self.depth)
        )

    def shape(self, name: str) -> Shape:
        """Of the variable of that name, without the scope (OpenAI's model.py)."""
        width = self.width
        shapes = {
            "wte": (self.colours, width),
            "wtet": (self.colours, width),
            "wpe": (self.positions, width),
            "mlp/c_fc/w": (width, 4 * width),
            "mlp/c_proj/w": (4 * width, width),
        }
        if "/attn/" in name:
            return (self.heads, width // self.heads, width)
        return shapes.get(LAYER.sub("", name), (width,))


def read(prefix: Path, colours: Float[Tensor, "K 3"], *, grid: Grid | None = None) -> Imported:
    """The model of a checkpoint, given by its prefix, its `.index` file or its folder, with that palette.

    The tensors are read one after another, in the order of the table, so that memory stays at the model's own
    and one row of the table. The weights do not say how positions stand in rows: without `grid` they are a
    square. Raises ValueError that names the file and the variable that is missing, unknown, misshapen or
    damaged.
    """
    bundle = Bundle.open(prefix)
    try:
        return _import(bundle, colours, grid)
    except ValueError as error:
        named = str(bundle.prefix) in str(error)  # by the bundle, with the file of it that is meant
        raise ValueError(str(error) if named else f"checkpoint {bundle.prefix}: {error}") from None


def _import(bundle: Bundle, colours: Float[Tensor, "K 3"], grid: Grid | None) -> Imported:
    skipped = {name: rule for name in bundle.entries if (rule := _rule(name))}
    given = {name: entry.shape for name, entry in bundle.entries.items() if name not in skipped}
    scope = _scope(given)
    sizes = _sizes(given, scope)
    if sizes.colours != len(colours):
        raise ValueError(f"it has {sizes.colours} colours; the palette has {len(colours)}")
    table = sizes.rows(scope)
    shapes = {name: sizes.shape(name.removeprefix(scope)) for row in table for name in row.theirs}
    _check(given, shapes)
    square = _grid(sizes.positions, grid)
    left_out = tuple(Account(name, skipped=rule) for name, rule in skipped.items())
    check_accounts([*(Account(name, row.ours) for row in table for name in row.theirs), *left_out])
    tensors, accounts = translate(table, shapes, lambda name: bundle.read(name).view(shapes[name]))
    step = STEP.search(bundle.prefix.name)
    return Imported(
        origin=f"OpenAI {bundle.prefix.name}",
        depth=sizes.depth,
        width=sizes.width,
        grid=square,
        block=TransformerSpec(heads=sizes.heads),
        objective=Autoregressive() if sizes.start else Masked(),
        colours=colours,
        step=int(step[1]) if step else 0,
        tensors=tensors,
        accounts=(*accounts, *left_out),
    )


def _rule(name: str) -> str:
    """The rule by which a variable is left out; empty for one that is not."""
    found = (rule for pattern, rule in RULES if any(re.fullmatch(pattern, part) for part in name.split("/")))
    return next(found, "")


def _scope(names: Iterable[str]) -> str:
    """What stands before every name: `model/` in the released checkpoints."""
    scopes = [name.removesuffix("wte") for name in names if name.split("/")[-1] == "wte"]
    if len(scopes) != 1:
        found = ", ".join(repr(scope) for scope in scopes[:5]) or "none"
        raise ValueError(f"it has {len(scopes)} variables 'wte' (in scopes: {found}); an Image GPT has one")
    return scopes[0]


def _sizes(given: Shapes, scope: str) -> Sizes:
    colours, width = _trimmed(given, f"{scope}wte", 2)
    positions, _ = _trimmed(given, f"{scope}wpe", 2)
    heads, *_ = _trimmed(given, f"{scope}h0/attn/q_proj", 3)
    if min(colours, width, positions, heads) < 1:
        raise ValueError(f"it has {colours} colours, width {width}, {positions} positions and {heads} heads")
    found = (LAYER.match(name.removeprefix(scope)) for name in given)
    layers = {int(layer[1]) for layer in found if layer}
    for layer in range(len(layers)):
        if layer not in layers:
            raise ValueError(f"layer {layer} is missing; its last is {max(layers)}")
    return Sizes(colours, width, positions, heads, len(layers), f"{scope}sos" in given)


def _trimmed(given: Shapes, name: str, dimensions: int) -> Shape:
    """A shape without the leading dimensions of 1 that are too many."""
    if name not in given:
        raise ValueError(f"variable {name!r} is missing")
    shape = given[name]
    while len(shape) > dimensions and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != dimensions:
        raise ValueError(f"variable {name!r} has shape {given[name]}; wanted: {dimensions} dimensions")
    return shape


def _check(given: Shapes, wanted: Shapes) -> None:
    """Raises ValueError for the first variable that is missing, misshapen or unknown."""
    for name, shape in wanted.items():
        if _trimmed(given, name, len(shape)) != shape:
            raise ValueError(f"variable {name!r} has shape {given[name]}; this model needs {shape}")
    for name in sorted(given.keys() - wanted.keys()):
        raise ValueError(f"variable {name!r} is unknown; no rule says what to do with it")


def _grid(positions: int, grid: Grid | None) -> Grid:
    if grid is not None:
        return as_many(positions, grid)
    side = math.isqrt(positions)
    if side * side != positions:
        raise ValueError(f"its {positions} positions are no square; give --rows and --cols")
    return Grid(side, side)

"""Import OpenAI's Image GPT checkpoints without TensorFlow; those with a start token are autoregressive."""

import re
from collections.abc import Iterable
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.interop.imported_model import ImportedModel, convert_tensors, grid_of, igpt_recipe, shape_of
from isopix.interop.name_tables import OPENAI_START, Naming, expand_layers, openai_table
from isopix.interop.tf_checkpoint import find_prefix, open_checkpoint
from isopix.model.blocks.transformer import TransformerSpec
from isopix.objectives.objectives import Autoregressive, Masked

# Variables that are not part of the model: a pattern of one component of the name, and the reason.
SKIPPED = (
    (r"(.*/)?clf(/.*)?", "classifier head"),
    (
        r"(.*/)?(adam_[mv]|Adam(_\d+)?|AdamWeightDecayOptimizer(_\d+)?|beta[12]_power(_\d+)?)(/.*)?",
        "optimizer state",
    ),
    (r"(.*/)?(global_step|_step)(/.*)?", "step counter"),
)
LAYER = re.compile(r"h(\d+)/")
STEP = re.compile(r"-(\d{1,12})$")


def read_checkpoint(prefix: Path, colors: Float[Tensor, "K 3"], *, grid: Grid | None = None) -> ImportedModel:
    """Import the model of a checkpoint, given by its prefix, its `.index` file or its folder.

    `colors` is its palette, levels of 0..255. Sizes are inferred from the shapes; without `grid` the image is
    square. One mapping of tensors is read at a time, so that memory stays close to the model's size.
    """
    prefix = find_prefix(prefix)
    stored, naming = open_checkpoint(prefix), Naming("OpenAI", "", SKIPPED)
    naming = naming._replace(prefix=_scope(name for name in stored.shapes if not naming.skip_reason(name)))
    shapes = {name.removeprefix(naming.prefix): shape for name, shape in stored.shapes.items()}
    count, width = shape_of(shapes, "wte", 2)
    positions, _ = shape_of(shapes, "wpe", 2)
    heads, *_ = shape_of(shapes, "h0/attn/q_proj", 3)
    depth = len(
        {match[1] for name in shapes if (match := LAYER.match(name)) and not naming.skip_reason(name)}
    )
    if count != len(colors):
        raise ValueError(f"it has {count} colors; the palette has {len(colors)}")
    causal = "sos" in shapes
    grid = grid_of(positions, grid)
    objective = Autoregressive() if causal else Masked()
    recipe = igpt_recipe(depth, width, grid, TransformerSpec(heads=heads), objective, count)
    table = (*openai_table(heads), *([OPENAI_START] if causal else []))
    mappings = tuple(expand_layers(table, depth))
    tensors, reports = convert_tensors(stored, naming, mappings, recipe.outline().tensors())
    step = STEP.search(prefix.name)
    return ImportedModel(
        origin=f"OpenAI {prefix.name}",
        recipe=recipe,
        codec=Palette(colors, grid),
        step=int(step[1]) if step else 0,
        tensors=tensors,
        tensor_reports=reports,
    )


def _scope(names: Iterable[str]) -> str:
    scopes = [name.removesuffix("wte") for name in names if name.split("/")[-1] == "wte"]
    if len(scopes) != 1:
        found = ", ".join(map(repr, scopes[:5])) or "none"
        raise ValueError(f"it has {len(scopes)} variables 'wte' (in scopes: {found}); an Image GPT has one")
    return scopes[0]

"""ImportedModel: a model of another library in the names and layouts of isopix, and its run folder."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.config import from_dict, to_dict
from isopix.core.device import runtime_environment
from isopix.core.types import Grid
from isopix.data.dataset import DataConfig
from isopix.interop.name_tables import ZERO_BIAS, Naming, WeightMapping, to_source
from isopix.interop.weights import WeightFiles
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.network import Network
from isopix.model.spec import ModelSpec
from isopix.objectives.base import ObjectiveSpec
from isopix.recipes.recipe import Recipe
from isopix.runs.state import CLASSIFIER, MODEL, RunEnvironment, State, records_of, write_environment
from isopix.storage import checkpoint
from isopix.storage.atomic import write_json
from isopix.storage.log import RunLog
from isopix.storage.provenance import environment
from isopix.storage.run_folder import start_run
from isopix.train.config import TrainConfig

DEFAULT_DATA = "imagenet-1k"  # of all released models; read where the dataset is not stated

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ImportedModel:
    """Float32 weights named as `Network.tensors()`, recipe, and the source's tensors that are `skipped`."""

    origin: str  # such as `Hugging Face openai/imagegpt-small` or `OpenAI model.ckpt-131000`
    recipe: Recipe  # its dataset is not known
    codec: Codec
    tensors: Mapping[str, Tensor]
    skipped: Mapping[str, str]  # reasons, by the names in the source
    step: int = 0  # training steps, 0 if unknown
    head: Mapping[str, Tensor] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    def network(self) -> Network:
        """Return the network with these weights. Raises ValueError if a tensor does not fit."""
        buffers = {f"codec.{name}": tensor for name, tensor in self.codec.state_dict().items()}
        return self.recipe.restore(self.codec, {**self.tensors, **buffers})


def igpt_recipe(
    depth: int, width: int, grid: Grid, block: TransformerSpec, objective: ObjectiveSpec, num_colors: int
) -> Recipe:
    """Return the recipe of an imported Image GPT; unknown training settings keep their defaults."""
    return Recipe(
        name=f"igpt.{depth}x{width}",
        data=DataConfig(rows=grid.rows, cols=grid.cols),
        model=ModelSpec(codec=PaletteSpec(num_colors=num_colors), depth=depth, width=width, block=block),
        objective=objective,
        train=TrainConfig(precision="fp32"),
    )


def shape_of(shapes: Shapes, name: str, dimensions: int) -> tuple[int, ...]:
    """Return the shape of a tensor without superfluous leading dimensions of 1."""
    shape = shapes.get(name, ())
    if len(shape) < dimensions:
        raise ValueError(f"tensor '{name}' is missing, or does not have {dimensions} dimensions")
    return shape[len(shape) - dimensions :]


def expansion_of(inner: int, width: int) -> int:
    """Return the expansion of an MLP. Raises ValueError if it is no integer."""
    if inner % width:
        raise ValueError(f"the MLP has width {inner}, which is not a multiple of {width}")
    return inner // width


def square_of(positions: int) -> Grid:
    """Return the square grid. Raises ValueError if it does not have that many positions."""
    side = math.isqrt(positions)
    if side**2 != positions:
        raise ValueError(f"its {positions} positions are no square, and no file states its rows and columns")
    return Grid(side, side)


def convert_tensors(
    stored: WeightFiles, naming: Naming, mappings: Sequence[WeightMapping], targets: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors in our names and layouts, one mapping at a time, and the reasons to skip others.

    `targets` have the shapes of ours. Raises ValueError for a tensor that is missing, unknown, of another
    shape, or not finite in float32.
    """
    names = naming.stored_names(stored.shapes)
    meta = {name: each.to("meta") for name, each in targets.items()}
    shapes = {name: tuple(each.shape) for name, each in to_source(mappings, meta).items()}
    skipped = _check_tensors(names, stored.shapes, shapes, naming)
    for name in (name for name, rule in skipped.items() if rule == ZERO_BIAS):
        if stored.read(names[name]).any():
            raise ValueError(f"tensor '{names[name]}' is a bias that is not zero; {naming.library} has none")
    converted: dict[str, Tensor] = {}
    for mapping in mappings:
        given = ((names[name], shapes[name]) for name in mapping.source)
        single = tuple(_to_float32(name, stored.read(name).view(shape)) for name, shape in given)
        for name, tensor in zip(mapping.target, mapping.to_target(single), strict=True):
            converted[name] = tensor.contiguous()
    return converted, {names[name]: rule for name, rule in skipped.items()}


def _check_tensors(
    names: Mapping[str, str], stored: Shapes, needed: Shapes, naming: Naming
) -> dict[str, str]:
    """Return the tensors that are skipped, with reasons; others may have leading dimensions of 1."""
    skipped = {name: naming.skip_reason(name) for name in sorted(names.keys() - needed.keys())}
    for name in (name for name, reason in skipped.items() if not reason):
        raise ValueError(f"tensor {names[name]!r:.100} is not part of a supported model of {naming.library}")
    for name, shape in needed.items():
        if name not in names:
            raise ValueError(f"tensor '{name}' is missing")
        given = stored[names[name]]
        if given != (1,) * (len(given) - len(shape)) + shape:
            raise ValueError(f"tensor '{name}' has shape {given}; this model needs {shape}")
    return skipped


def _to_float32(name: str, tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        raise ValueError(f"tensor '{name}' has dtype {tensor.dtype}; weights must be floating point")
    single = tensor.float()
    if not all(bound.isfinite() for bound in single.aminmax()):
        raise ValueError(f"tensor '{name}' has elements that are not finite in float32")
    return single


def import_run(read: Callable[[], ImportedModel], out: Path, *, data: str | None) -> ImportedModel:
    """Create a run folder with the model that `read` returns; `data` is what it was trained on, if known."""
    with start_run(out) as run:
        imported = read()
        recipe = imported.recipe
        steps, source = max(1, imported.step), data or DEFAULT_DATA
        recipe = recipe.updated(data=replace(recipe.data, source=source), steps=steps)
        runtime = runtime_environment(torch.device("cpu"))
        facts = environment(runtime)
        origin: dict[str, Any] = {"imported": imported.origin, **({"trained_on": data} if data else {})}
        origin |= {name: facts[name] for name in ("isopix", "command")}
        write_json(run.recipe, to_dict(recipe))
        write_environment(run, from_dict(RunEnvironment, {**facts, **origin}))
        log = RunLog(run.log)
        log.write({"kind": "note", "step": imported.step, "text": f"imported from {imported.origin}"})
        log.close()
        network = imported.network()
        state = State(
            step=imported.step,
            codec=network.codec.fingerprint(),
            data="not known",
            labels_seen=None,
            seen_known=False,
            classes=imported.classes,
        )
        records = records_of(recipe, state, runtime, {**origin, "skipped": dict(imported.skipped)})
        groups = {MODEL: network.tensors(), **({CLASSIFIER: imported.head} if imported.head else {})}
        checkpoint.save_checkpoint(checkpoint.step_folder(run.checkpoints, imported.step), groups, records)
    return imported

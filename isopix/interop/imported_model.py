"""ImportedModel: a model of another library in the names and layouts of isopix, and its run folder."""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.config import from_dict, to_dict
from isopix.core.device import runtime_environment
from isopix.core.types import Grid
from isopix.core.version import __version__
from isopix.data.dataset import DataConfig
from isopix.interop.name_tables import ZERO_BIAS, Naming, TensorReport, WeightMapping, to_source
from isopix.interop.weights import WeightFiles, mmap_alloc
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.network import Network
from isopix.model.spec import ModelSpec
from isopix.objectives.base import ObjectiveSpec
from isopix.recipes.recipe import Recipe
from isopix.runs.state import RunEnvironment, State, write_environment
from isopix.storage import checkpoint
from isopix.storage.atomic import write_json
from isopix.storage.log import RunLog
from isopix.storage.run_folder import RunFolder, start_run
from isopix.train.config import TrainConfig

CLASSIFIER = "classifier."  # begins the names of the tensors of a class head
DEFAULT_DATA = "imagenet-1k"  # of all released models; read where the dataset is not stated

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class ImportedModel:
    """Weights and recipe of an imported model; `tensor_reports` lists every tensor of the source.

    `tensors` are float32 on the CPU, named as in `Network.tensors()` without those of the codec, and those of
    a class head, whose outputs are named `classes`, as `classifier.weight`.
    """

    origin: str  # such as `Hugging Face openai/imagegpt-small` or `OpenAI model.ckpt-131000`
    recipe: Recipe  # its dataset is not known
    codec: Codec
    tensors: Mapping[str, Tensor]
    tensor_reports: Sequence[TensorReport]
    step: int = 0  # training steps, 0 if unknown
    classes: tuple[str, ...] = ()

    def network(self) -> Network:
        """Return the network with these weights. Raises ValueError if a tensor does not fit."""
        own = {name: each for name, each in self.tensors.items() if not name.startswith(CLASSIFIER)}
        buffers = {f"codec.{name}": tensor for name, tensor in self.codec.state_dict().items()}
        return self.recipe.restore(self.codec, {**own, **buffers})


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


def convert_tensors(
    stored: WeightFiles, naming: Naming, mappings: Sequence[WeightMapping], targets: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], list[TensorReport]]:
    """Return the tensors in our names and layouts, and a report of each source tensor; the tensors of one
    mapping at a time are held twice.

    `targets` are tensors of the shapes that ours have. All names and shapes are checked first: raises
    ValueError for a tensor that is missing, unknown, of another shape, or not finite in float32.
    """
    names = naming.stored_names(stored.shapes)
    meta = {name: each.to("meta") for name, each in targets.items()}
    shapes = {name: tuple(each.shape) for name, each in to_source(mappings, meta).items()}
    skipped = _check_names(names, shapes, naming)
    _check_shapes({name: stored.shapes[names[name]] for name in shapes}, shapes)
    for name in (name for name, rule in skipped.items() if rule == ZERO_BIAS):
        if stored.read(names[name]).any():
            raise ValueError(f"tensor '{names[name]}' is a bias that is not zero; {naming.library} has none")
    converted: dict[str, Tensor] = {}
    reports: list[TensorReport] = []
    for mapping in mappings:
        given = [stored.read(names[name]).view(shapes[name]) for name in mapping.source]
        single = [_to_float32(names[name], each) for name, each in zip(mapping.source, given, strict=True)]
        for name, tensor in zip(mapping.target, mapping.to_target(tuple(single)), strict=True):
            converted[name] = mmap_alloc(tensor.shape, torch.float32).copy_(tensor)
        reports += [
            TensorReport(names[name], mapping.target, rounded=_rounded_from(*pair))
            for name, *pair in zip(mapping.source, given, single, strict=True)
        ]
    return converted, [*reports, *(TensorReport(names[name], skipped=rule) for name, rule in skipped.items())]


def _check_names(names: Mapping[str, str], needed: Shapes, naming: Naming) -> dict[str, str]:
    """Return the tensors that are skipped, with the reason of each."""
    for name in needed.keys() - names.keys():
        raise ValueError(f"tensor '{name}' is missing")
    skipped = {name: naming.skip_reason(name) for name in sorted(names.keys() - needed.keys())}
    for name in (name for name, reason in skipped.items() if not reason):
        raise ValueError(f"tensor {names[name]!r:.100} is not part of a supported model of {naming.library}")
    return skipped


def _check_shapes(given: Mapping[str, tuple[int, ...]], needed: Shapes) -> None:
    """Superfluous leading dimensions of 1 are allowed."""
    for name, shape in needed.items():
        extra = len(given[name]) - len(shape)
        if given[name] != (1,) * extra + shape:
            raise ValueError(f"tensor '{name}' has shape {given[name]}; this model needs {shape}")


def _to_float32(name: str, tensor: Tensor) -> Tensor:
    """Return the tensor in float32. Raises ValueError if an element is not finite in float32."""
    if not tensor.is_floating_point():
        raise ValueError(f"tensor '{name}' has dtype {tensor.dtype}; weights must be floating point")
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


def import_run(read: Callable[[], ImportedModel], out: Path, *, data: str | None) -> ImportedModel:
    """Create a run folder with one checkpoint, the model that `read` returns; `data` names the dataset that
    it was trained on, if known.

    Raises ValueError if the folder is not empty, before anything is read, or if a tensor does not fit, and
    what `read` raises; RuntimeError if the disk is full.
    """
    with start_run(out) as run:
        imported = read()
        recipe = imported.recipe
        steps, source = max(1, imported.step), data or DEFAULT_DATA
        recipe = recipe.updated(data=replace(recipe.data, source=source), steps=steps)
        details = runtime_environment(torch.device("cpu"))
        origin: dict[str, Any] = {"imported": imported.origin, **({"trained_on": data} if data else {})}
        origin |= {"isopix": __version__, "command": ["isopix", *sys.argv[1:]]}
        started = datetime.now(UTC).isoformat(timespec="seconds")
        write_json(run.recipe, to_dict(recipe))
        write_environment(run, from_dict(RunEnvironment, {**details, **origin, "started": started}))
        log = RunLog(run.log)
        log.write({"kind": "note", "step": imported.step, "text": f"imported from {imported.origin}"})
        log.close()
        _save(run, imported, recipe, details, origin)
    return imported


def _save(
    run: RunFolder, imported: ImportedModel, recipe: Recipe, details: dict[str, Any], origin: dict[str, Any]
) -> None:
    network = imported.network()
    state = State(
        step=imported.step,
        codec=network.codec.fingerprint(),
        data="not known",
        labels_seen=None,
        seen_known=False,
        classes=imported.classes,
    )
    reports = [report._asdict() for report in imported.tensor_reports]
    records = {
        "recipe": to_dict(recipe),
        "state": to_dict(state),
        "environment": details,
        "imported": {**origin, "tensors": reports},  # what became of each source tensor
    }
    groups = {"model": network.tensors()}
    if imported.classes:
        groups["classifier"] = dict(_classifier(imported.tensors))
    checkpoint.save_checkpoint(checkpoint.step_folder(run.checkpoints, imported.step), groups, records)


def _classifier(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in tensors.items():
        if name.startswith(CLASSIFIER):
            yield name.removeprefix(CLASSIFIER), tensor

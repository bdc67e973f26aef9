"""Import a Vision Transformer: its weights by a table of names, after all names and shapes are checked."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from isopix.interop.imported_model import ImportedModel, check_tensor, convert_tensors
from isopix.interop.name_tables import TensorReport, WeightMapping, expand_layers
from isopix.interop.vit.config import ViTConfig
from isopix.interop.vit.names import TABLE, Naming, stored_names
from isopix.interop.weight_files import WeightFiles, quote
from isopix.model.positions import sincos_table
from isopix.recipes.recipe import Recipe

Shape = tuple[int, ...]
FIXED_TOLERANCE = 1e-5  # between stored sine and cosine embeddings and computed ones


def read_vit(
    stored: WeightFiles, config: ViTConfig, naming: Naming, table: Sequence[WeightMapping], origin: str
) -> ImportedModel:
    """Return the model of these files. Raises ValueError for a tensor that is missing, unknown, of another
    shape or not finite in float32.
    """
    names = stored_names(stored.shapes, naming)
    recipe = config.recipe(fixed_positions=config.mask_ratio is not None)
    mappings = tuple(expand_layers(table, config.depth))
    shapes = _source_shapes(mappings, recipe)
    head = _head_shapes(config, naming)
    skipped = _check_names(names, {**shapes, **head}, naming)
    _check_shapes(stored, names, {**shapes, **head})

    def read(name: str) -> Tensor:
        return stored.read(names[name])

    tensors, reports = convert_tensors(mappings, shapes, read)
    if config.mask_ratio is not None and not _is_fixed(tensors[TABLE], recipe):
        recipe = config.recipe(fixed_positions=False)
    classifier, own = _read_head(head, read)
    return ImportedModel(
        origin=origin,
        recipe=recipe,
        codec=recipe.model.codec.placeholder(recipe.grid),
        step=0,
        tensors=tensors,
        tensor_reports=(
            *(report._replace(source=names[report.source]) for report in (*reports, *own)),
            *(TensorReport(names[name], skipped=rule) for name, rule in skipped.items()),
        ),
        classifier=classifier,
        classes=config.classes,
    )


def _source_shapes(mappings: Sequence[WeightMapping], recipe: Recipe) -> dict[str, Shape]:
    """Return the shape of every source tensor: what the network's own become, without memory for them."""
    own = recipe.outline().tensors()
    shapes: dict[str, Shape] = {}
    for mapping in mappings:
        tensors = mapping.to_source(tuple(own[name].to("meta") for name in mapping.target))
        shapes |= {name: tuple(each.shape) for name, each in zip(mapping.source, tensors, strict=True)}
    return shapes


def _head_shapes(config: ViTConfig, naming: Naming) -> dict[str, Shape]:
    count = len(config.classes)
    if not count:
        return {}
    return {f"{naming.head}.weight": (count, config.width), f"{naming.head}.bias": (count,)}


def _check_names(names: Mapping[str, str], needed: Mapping[str, Shape], naming: Naming) -> dict[str, str]:
    """Return the tensors that are skipped, with the reason of each. Raises ValueError for one that is missing
    or unknown.
    """
    for name in needed:
        if name not in names:
            raise ValueError(f"tensor '{name}' is missing")
    skipped = {name: naming.skip_reason(name) for name in sorted(names.keys() - needed.keys())}
    for name, reason in skipped.items():
        if not reason:
            raise ValueError(
                f"tensor {quote(names[name])} is not part of a supported Vision Transformer of "
                f"{naming.library}"
            )
    return skipped


def _check_shapes(stored: WeightFiles, names: Mapping[str, str], shapes: Mapping[str, Shape]) -> None:
    for name, shape in shapes.items():
        given = stored.shapes[names[name]]
        if given != shape:
            raise ValueError(f"tensor '{names[name]}' has shape {given}; this model needs {shape}")


def _read_head(
    shapes: Mapping[str, Shape], read: Callable[[str], Tensor]
) -> tuple[dict[str, Tensor], list[TensorReport]]:
    """Return the tensors of the class head by its own names, and a report of each."""
    tensors = {name: check_tensor(name, read(name), shape).float() for name, shape in shapes.items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"tensor '{name}' has elements that are not finite in float32")
    own = {name.rpartition(".")[2]: tensor.clone() for name, tensor in tensors.items()}
    return own, [TensorReport(name, (f"classifier.{name.rpartition('.')[2]}",)) for name in tensors]


def _is_fixed(table: Tensor, recipe: Recipe) -> bool:
    """Whether position embeddings are the fixed ones of MAE."""
    return torch.allclose(table, sincos_table(recipe.grid, recipe.model.width), rtol=0, atol=FIXED_TOLERANCE)

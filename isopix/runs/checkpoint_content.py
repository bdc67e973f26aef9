"""Whether the content of a checkpoint whose hashes are right is that of a run: checked before it is used."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod

import torch
from torch import Tensor, nn

from isopix.codecs.base import Codec
from isopix.core.config import from_dict
from isopix.core.registry import require_plugins
from isopix.model.heads import ClassHead
from isopix.model.network import Network, limited_parameters, unsaved_tensors
from isopix.model.pool import pooled_width
from isopix.recipes.recipe import Recipe
from isopix.runs.run_identity import check_identity
from isopix.storage.checkpoint import Checkpoint, DamagedCheckpointError
from isopix.storage.record_types import check_environment, check_state
from isopix.train.optimizer_state import check_optimizer_state

MODEL, OPTIMIZER, CLASSIFIER = "model", "optimizer", "classifier"  # groups of tensors
MORE_PARAMETERS, MORE_CONSTANTS = 2**20, 2**26  # that a network may have beyond its saved tensors


def check_content(found: Checkpoint) -> None:
    """Raise DamagedCheckpointError unless the records and the groups of tensors that were read are those of
    this recipe: types of values, step and run of the folder; names, shapes, types and finite numbers of
    weights, class head and optimizer state.

    No memory is allocated for the sizes that the recipe states before they are compared with the weights.
    Raises ValueError if a plugin of the checkpoint is not loaded.
    """
    recipe = recipe_of(found)
    check_identity(found)
    for group, tensors in found.tensors.items():
        with _damage(found, f"{group}.safetensors"):
            _check_finite(tensors)
    if MODEL not in found.tensors:
        return
    with _damage(found, "model.safetensors"):
        network = _outline(recipe, found.tensors[MODEL])
        _compare(network.tensors(), network.codec.renamed(found.tensors[MODEL]))
    codec_of(found)
    with _damage(found, "classifier.safetensors"):
        head = _check_classifier(recipe, found)
    if OPTIMIZER in found.tensors:
        with _damage(found, "optimizer.safetensors"):
            parameters = _named(network, "network") | (_named(head, "head") if head else {})
            check_optimizer_state(recipe.train.optimizer, parameters, found.tensors[OPTIMIZER])


def recipe_of(found: Checkpoint) -> Recipe:
    """Return the recipe of a checkpoint.

    Raises DamagedCheckpointError if a record is missing or has values of wrong types, and ValueError if a
    plugin is not loaded.
    """
    for name in ("recipe", "state"):
        if name not in found.records:
            raise DamagedCheckpointError(found.path, f"{name}.json is missing")
    with _damage(found, ""):
        check_state(found.records["state"])
        check_environment(found.records.get("environment", {}))
    plugin_changes(found)
    with _damage(found, "recipe.json"):
        return from_dict(Recipe, found.records["recipe"])


def class_head_of(found: Checkpoint) -> ClassHead | None:
    """Return the class head of a checkpoint; None if it has none, or if its tensors were not read."""
    weights, finetune = found.tensors.get(CLASSIFIER), recipe_of(found).finetune
    if weights is None or finetune is None or not finetune.has_class_loss:
        return None
    head = _class_head(recipe_of(found), len(found.records["state"]["classes"]))
    head.load_state_dict(weights)
    return head


def plugin_changes(found: Checkpoint) -> tuple[str, ...]:
    """Return a note for each plugin of a checkpoint that has changed since it was saved.

    Raises ValueError if a part of a plugin is not loaded.
    """
    return tuple(require_plugins(found.records.get("environment", {}).get("plugins", ())))


def codec_of(found: Checkpoint) -> Codec:
    """Return the codec of a checkpoint. Raises DamagedCheckpointError if its hash is not the one recorded."""
    recipe = recipe_of(found)
    with _damage(found, "model.safetensors"):
        codec = recipe.model.codec.from_state(found.tensors[MODEL], recipe.grid)
    recorded = found.records["state"]["codec"]
    if codec.fingerprint() != recorded:
        raise DamagedCheckpointError(
            found.path,
            f"model.safetensors: palette {codec.fingerprint()[:12]} is not palette {recorded[:12]}, "
            "which the checkpoint was trained with",
        )
    return codec


@contextmanager
def _damage(found: Checkpoint, file: str) -> Iterator[None]:
    """Turn whatever a part makes of wrong content into DamagedCheckpointError, in one line."""
    try:
        yield
    except DamagedCheckpointError:
        raise
    except Exception as error:  # a part may raise anything for values that it was not made for
        reason = f"no tensor {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise DamagedCheckpointError(found.path, f"{file}: {reason}" if file else reason) from None


def _outline(recipe: Recipe, weights: Mapping[str, Tensor]) -> Network:
    """Return the network of a recipe on the meta device. Raises ValueError if it is far larger than the
    weights.
    """
    saved = sum(tensor.numel() for tensor in weights.values())
    with limited_parameters(2 * saved + MORE_PARAMETERS):
        network = recipe.outline()
    beside = sum(prod(tensor.shape) for tensor in unsaved_tensors(network).values())
    if beside > saved + MORE_CONSTANTS:
        raise ValueError(
            f"the recipe needs {beside:,} constants; allowed: {MORE_CONSTANTS:,} more than weights"
        )
    return network


def _compare(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Raise ValueError for the first tensor of another name, shape or type."""
    for name in sorted(own.keys() ^ tensors.keys()):
        where = "missing from the checkpoint" if name in own else "not in this model"
        raise ValueError(f"tensor '{name}' is {where}")
    for name, expected in own.items():
        tensor = tensors[name]
        if tensor.shape != expected.shape:
            given, allowed = tuple(tensor.shape), tuple(expected.shape)
            raise ValueError(
                f"tensor '{name}' has shape {given} in the checkpoint and {allowed} in this model"
            )
        if tensor.is_floating_point() != expected.is_floating_point() or (
            not expected.is_floating_point() and tensor.dtype != expected.dtype
        ):
            raise ValueError(f"tensor '{name}' has type {tensor.dtype}; allowed: {expected.dtype}")


def _check_finite(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"tensor '{name}' has numbers that are not finite")


def _check_classifier(recipe: Recipe, found: Checkpoint) -> ClassHead | None:
    """Return the class head on the meta device; None for a run without one. Raises ValueError for other
    tensors.
    """
    finetune = recipe.finetune
    if finetune is None or (CLASSIFIER not in found.tensors and OPTIMIZER not in found.tensors):
        return None
    if CLASSIFIER not in found.tensors:
        raise ValueError("the file is missing")
    classes = len(found.records["state"].get("classes", ()))
    with torch.device("meta"):
        head = _class_head(recipe, classes)
    _compare(head.state_dict(), found.tensors[CLASSIFIER])
    return head


def _class_head(recipe: Recipe, classes: int) -> ClassHead:
    """Return a new class head. The recipe is one of fine-tuning."""
    settings = recipe.finetune
    assert settings is not None, "checked by the caller"
    inputs = pooled_width(settings.pool, recipe.grid, recipe.model.width)
    return ClassHead(inputs, classes, residual_block=settings.residual_block, bias=settings.head_bias)


def _named(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": parameter for name, parameter in module.named_parameters()}

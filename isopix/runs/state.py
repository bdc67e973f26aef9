"""What a run records of itself, typed once: `State` (state.json) and `Environment` (environment.json)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from isopix.codecs.base import Codec
from isopix.core.choices import Range
from isopix.core.config import config, from_dict, to_dict
from isopix.core.registry import require_plugins
from isopix.model.heads import ClassHead
from isopix.model.pool import pooled_width
from isopix.recipes.recipe import Recipe
from isopix.storage.atomic import read_json, write_json
from isopix.storage.checkpoint import STEP_NAME, Checkpoint, DamagedCheckpointError
from isopix.storage.hashing import sha256_of
from isopix.storage.run_folder import RunFolder
from isopix.train.optim import OptimizerSpec
from isopix.train.train_step import NO_STATE, NUMBER

MODEL, OPTIMIZER, CLASSIFIER = "model", "optimizer", "classifier"  # groups of tensors

Step = Annotated[int, Range(low=0)]


@config
class Origin:
    """The numbers of labels that a network has seen with those of this run and before it, None if that is not
    known, and whether its initial weights have a decoder that fits.
    """

    labels_seen: int | None = 0
    initial_labels_seen: int | None = 0
    decoder_valid: bool = True

    def labels_at(self, step: int | None) -> int | None:
        """Return the number of labels seen by the weights of a step; None is the whole run."""
        return self.initial_labels_seen if step == 0 else self.labels_seen


@config
class State:
    """Where the weights of a checkpoint are from, and what they have seen."""

    step: Step
    codec: str = ""
    """Hash of the codec."""
    data: str = ""
    """Hash of the images."""
    run_id: str | None = None
    """Random id of the run, also in its environment.json; None for an imported model."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the lists of images of the run, by name."""
    labels_seen: int | None = 0
    """Labels that the weights were trained on; None if that is not known."""
    selection: str = ""
    """What was chosen in training, and by which images; empty for the last step."""
    decoder_valid: bool = True
    """Whether the decoder fits the backbone."""
    origin: Origin = Origin()
    seen_known: bool = True
    """Whether the list of images has all that the weights were trained on or selected by."""
    classes: tuple[str, ...] = ()
    """Names of the classes, in the order of the logits."""
    training_classes: tuple[str, ...] | None = None
    """Those of which there were training images; None where no classes were trained."""
    skipped_batches: Step = 0
    """Batches that rollbacks left out."""
    accumulate: int | None = None
    """The parts that a batch is split into for lack of memory, if they are not those of the settings."""


@config
class Environment:
    """What bitwise reproducibility depends on besides the settings, and the plugins, in each checkpoint."""

    device: str
    threads: int
    torch: str
    pillow: str
    python: str
    platform: str
    precision: str = ""
    plugins: tuple[dict[str, Any], ...] = ()


@config
class RunEnvironment(Environment):
    """environment.json of a run folder: what its training was started with."""

    isopix: str
    started: str
    command: tuple[str, ...]
    run_id: str | None = None
    commit: str | None = None
    folder: str = ""
    data: str = ""
    """Hash of the images."""
    images: Mapping[str, int] = field(default_factory=dict)
    """Images of each split."""
    majority: float | None = None
    """Test accuracy of predicting the majority class of train."""
    missing_classes: Mapping[str, Any] | None = None
    trained_parameters: int | None = None
    codec: Mapping[str, Any] | None = None
    """Where the codec is from, if it is not the run's own."""
    pretrained: Mapping[str, str | int] | None = None
    """Run and step of the initial weights."""
    selected: Mapping[str, Any] | None = None
    """The step that validation selected before a refit, and its measurement."""
    imported: str = ""
    """Where an imported model is from."""
    trained_on: str = ""
    """What an imported model was trained on."""


def write_environment(run: RunFolder, environment: RunEnvironment) -> None:
    """Write the environment of a run, without what it does not have."""
    values = to_dict(environment).items()
    write_json(run.environment, {name: value for name, value in values if value not in (None, "", {})})


def read_environment(run: RunFolder) -> RunEnvironment:
    """Return the environment of a run. Raises ValueError for a damaged file, OSError if it cannot be read."""
    try:
        return from_dict(RunEnvironment, read_json(run.environment))
    except ValueError as error:
        raise ValueError(f"{run.environment}: {error}") from None


def state_of(found: Checkpoint) -> State:
    """Return the state of a checkpoint. Raises DamagedCheckpointError."""
    with _damage(found, "state.json"):
        return from_dict(State, found.records["state"])


def environment_of(found: Checkpoint) -> Environment:
    """Return the environment of a checkpoint. Raises DamagedCheckpointError."""
    with _damage(found, "environment.json"):
        return from_dict(Environment, found.records["environment"])


def recipe_of(found: Checkpoint) -> Recipe:
    """Return the recipe of a checkpoint. Raises DamagedCheckpointError, or ValueError if a plugin is not
    loaded.
    """
    plugin_changes(found)
    with _damage(found, "recipe.json"):
        return from_dict(Recipe, found.records["recipe"])


def plugin_changes(found: Checkpoint) -> tuple[str, ...]:
    """Return a note for each plugin of a checkpoint that has changed since it was saved.

    Raises ValueError if a part of a plugin is not loaded.
    """
    return tuple(require_plugins(environment_of(found).plugins))


def codec_of(found: Checkpoint) -> Codec:
    """Return the codec of a checkpoint. Raises DamagedCheckpointError if its hash is not the one recorded."""
    recipe, recorded = recipe_of(found), state_of(found).codec
    with _damage(found, "model.safetensors"):
        codec = recipe.model.codec.from_state(found.tensors[MODEL], recipe.grid)
        if codec.fingerprint() != recorded:
            own = codec.fingerprint()[:12]
            raise ValueError(f"palette {own} is not palette {recorded[:12]}, which it was trained with")
    return codec


def class_head_of(found: Checkpoint) -> ClassHead | None:
    """Return the class head of a checkpoint; None if it has none, or if its tensors were not read."""
    recipe, weights = recipe_of(found), found.tensors.get(CLASSIFIER)
    settings = recipe.finetune
    if weights is None or settings is None or not settings.has_class_loss:
        return None
    inputs = pooled_width(settings.pool, recipe.grid, recipe.model.width)
    classes = len(state_of(found).classes)
    head = ClassHead(inputs, classes, residual_block=settings.residual_block, bias=settings.head_bias)
    with _damage(found, "classifier.safetensors"):
        head.load_state_dict(weights)
    return head


def check_content(found: Checkpoint) -> None:
    """Raise DamagedCheckpointError for records that cannot be read, a checkpoint of another run or step than
    its folder's, another codec, and a state that the optimizer could not have saved; ValueError if a plugin
    is not loaded.
    """
    state, recipe = state_of(found), recipe_of(found)
    with _damage(found, "state.json"):
        _check_identity(found, state)
    if MODEL in found.tensors:
        codec_of(found)
    if OPTIMIZER in found.tensors:
        groups = {"network": MODEL, "head": CLASSIFIER}
        shapes = {
            f"{prefix}.{name}": tensor
            for prefix, group in groups.items()
            for name, tensor in found.tensors.get(group, {}).items()
        }
        with _damage(found, "optimizer.safetensors"):
            check_moments(recipe.train.optimizer, shapes, found.tensors[OPTIMIZER])


def check_moments(
    spec: OptimizerSpec, parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> None:
    """Raise ValueError for a moment of a wrong shape: PyTorch's fused optimizers read and write beyond it.

    Their moments have the shape and type of the parameter; those of other optimizers are scalars, or each
    side is that of the parameter or 1.
    """
    names = {path.rpartition("/")[0] for path in tensors}
    if not names:  # before the first step
        return
    for name in names - parameters.keys():
        raise ValueError(f"'{name}' is no parameter of this model")
    optimizer = spec.build([nn.Parameter(parameters[name]) for name in names])
    fused = bool(optimizer.param_groups[0].get("fused"))
    for path, tensor in tensors.items():
        name, _, moment = path.rpartition("/")
        parameter = parameters[name]
        if moment in (NO_STATE, "step") or moment.endswith(NUMBER):
            allowed = tensor.numel() == 1
        elif fused:
            allowed = (tensor.shape, tensor.dtype) == (parameter.shape, parameter.dtype)
        else:
            allowed = not tensor.ndim or _broadcasts(tensor.shape, parameter.shape)
        if not allowed:
            raise ValueError(
                f"tensor '{path}' has shape {tuple(tensor.shape)} and type {tensor.dtype}; its parameter has "
                f"{tuple(parameter.shape)} and {parameter.dtype}"
            )


def list_hashes(run: RunFolder) -> dict[str, str]:
    """Return the SHA-256 of the lists of images of a run, by name."""
    lists = (run.training_images, run.labeled_images)
    return {path.name: sha256_of(path) for path in lists if path.is_file()}


def _check_identity(found: Checkpoint, state: State) -> None:
    """Raise ValueError for a checkpoint of another run or another step than its folder's."""
    path = found.path.absolute()
    named = STEP_NAME.fullmatch(path.name)
    if named and path.parent.name == "checkpoints":
        run = RunFolder(path.parent.parent)
        if int(named[1]) != state.step:
            raise ValueError(f"step {state.step} is not that of the folder's name")
    elif path.name == "best":
        run = RunFolder(path.parent)
    else:  # a saved model
        return
    own = None
    with suppress(OSError, ValueError):  # a finding of those who need the file
        own = read_json(run.environment).get("run_id")
    if own is not None and state.run_id != own:
        raise ValueError(f"run id {state.run_id}; that of {run.path} is {own}")


def _broadcasts(shape: torch.Size, size: torch.Size) -> bool:
    return len(shape) == len(size) and all(own in (1, side) for own, side in zip(shape, size, strict=True))


@contextmanager
def _damage(found: Checkpoint, file: str) -> Iterator[None]:
    """Turn whatever a part makes of wrong content into DamagedCheckpointError, in one line."""
    try:
        yield
    except DamagedCheckpointError:
        raise
    except Exception as error:  # a part may raise anything for values that it was not made for
        reason = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise DamagedCheckpointError(found.path, f"{file}: {reason}") from None

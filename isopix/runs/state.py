"""What a run records of itself, typed once: `State` (state.json) and `Environment` (environment.json)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Annotated, Any

from isopix.codecs.base import Codec
from isopix.core.choices import Range
from isopix.core.config import config, from_dict, to_dict
from isopix.core.registry import require_plugins
from isopix.model.heads import ClassHead
from isopix.model.pool import pooled_width
from isopix.recipes.recipe import Recipe
from isopix.storage.atomic import read_json, write_json
from isopix.storage.checkpoint import Checkpoint, DamagedCheckpointError
from isopix.storage.run_folder import RunFolder

MODEL, OPTIMIZER, CLASSIFIER = "model", "optimizer", "classifier"  # groups of tensors

Step = Annotated[int, Range(low=0)]


@config
class Origin:
    """The numbers of labels seen in and before this run (None: unknown), and whether the decoder fits."""

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
    """Return the recipe of a checkpoint. Raises ValueError if a plugin is not loaded."""
    plugin_changes(found)
    with _damage(found, "recipe.json"):
        return from_dict(Recipe, found.records["recipe"])


def plugin_changes(found: Checkpoint) -> tuple[str, ...]:
    """Return a note for each plugin that has changed. Raises ValueError if a part is not loaded."""
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
    """Raise DamagedCheckpointError for records that cannot be read, ValueError if a plugin is missing."""
    state_of(found), recipe_of(found)
    if MODEL in found.tensors:
        codec_of(found)


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

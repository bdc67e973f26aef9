"""What a run records of itself, typed once: `State` (state.json), `Environment`, and a whole checkpoint."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.choices import Range
from isopix.core.config import config, from_dict, to_dict
from isopix.core.registry import require_plugins
from isopix.model.heads import ClassHead
from isopix.model.network import Network
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


@dataclass(frozen=True)
class SavedRun:
    """A checkpoint with typed records, its tensors by group, and why newer checkpoints are `damaged`."""

    recipe: Recipe
    state: State
    environment: Environment
    tensors: Mapping[str, Mapping[str, Tensor]]
    imported: Mapping[str, Any]  # where an imported model is from
    changes: tuple[str, ...]  # a note for each plugin that has changed
    codec: Codec | None = None  # None if the tensors of the model were not read
    damaged: Sequence[DamagedCheckpointError] = ()

    def network(self) -> Network:
        """Return the network with its weights and codec, without drawing initial weights."""
        assert self.codec is not None
        return self.recipe.restore(self.codec, self.tensors[MODEL])

    def class_head(self) -> ClassHead | None:
        """Return the class head; None if there is none, or if its tensors were not read."""
        recipe, weights = self.recipe, self.tensors.get(CLASSIFIER)
        settings = recipe.finetune
        if weights is None or settings is None or not settings.has_class_loss:
            return None
        inputs, classes = (
            pooled_width(settings.pool, recipe.grid, recipe.model.width),
            len(self.state.classes),
        )
        head = ClassHead(inputs, classes, residual_block=settings.residual_block, bias=settings.head_bias)
        head.load_state_dict(dict(weights))
        return head


def typed(found: Checkpoint, damaged: Sequence[DamagedCheckpointError] = ()) -> SavedRun:
    """Return a checkpoint with its records typed.

    Raises DamagedCheckpointError for wrong content, such as a codec whose hash is not the one recorded, and
    ValueError if a plugin is not loaded.
    """
    with _damage(found, "state.json"):
        state = from_dict(State, found.records["state"])
    with _damage(found, "environment.json"):
        environment = from_dict(Environment, found.records["environment"])
    changes = tuple(require_plugins(environment.plugins))
    with _damage(found, "recipe.json"):
        recipe = from_dict(Recipe, found.records["recipe"])
    imported = found.records.get("imported", {})
    saved = SavedRun(recipe, state, environment, found.tensors, imported, changes, damaged=damaged)
    if MODEL not in found.tensors:
        return saved
    with _damage(found, "model.safetensors"):
        codec = recipe.model.codec.from_state(found.tensors[MODEL], recipe.grid)
        if (own := codec.fingerprint()) != state.codec:
            raise ValueError(
                f"palette {own[:12]} is not palette {state.codec[:12]}, which it was trained with"
            )
    return replace(saved, codec=codec)


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

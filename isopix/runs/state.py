"""What a run saves of itself: typed records, and checkpoints, which are read and written here."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.choices import NonNegative
from isopix.core.config import config, from_dict, to_dict
from isopix.core.registry import require_plugins
from isopix.core.text import naming
from isopix.model.heads import ClassHead
from isopix.model.network import Network
from isopix.recipes.recipe import Recipe
from isopix.storage import checkpoint
from isopix.storage.atomic import read_json, write_json
from isopix.storage.checkpoint import Checkpoint, Groups, reported_as_damage
from isopix.storage.plugins import load_remembered
from isopix.storage.result import Measurement
from isopix.storage.run_folder import RunFolder
from isopix.train.parallel import is_sharded, write_shards

MODEL, OPTIMIZER, CLASSIFIER = "model", "optimizer", "classifier"  # groups of tensors
NUM_CHECKPOINTS = 2  # the older one serves if the newer is damaged


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

    step: NonNegative
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
    skipped_batches: NonNegative = 0
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
class InitialWeights:
    """Where the weights of a run are from."""

    run: str
    step: int


@config
class SelectedStep:
    """The step that validation selected before a refit, and by which images."""

    step: int
    validation_accuracy: float
    run: str
    measurement: Measurement


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
    trained_parameters: int | None = None
    codec: Mapping[str, Any] | None = None
    """Where the codec is from, if it is not the run's own."""
    pretrained: InitialWeights | None = None
    selected: SelectedStep | None = None
    imported: str = ""
    """Where an imported model is from."""
    trained_on: str = ""
    """What an imported model was trained on."""


def selection_text(images: int) -> str:
    """Return by how many images the step of the weights was chosen; empty where the last one is kept."""
    return f"step chosen on {images:,} validation images" if images else ""


class RunStatus(NamedTuple):
    """The state of a run after a training process, and which commands apply to it."""

    run: RunFolder
    step: int
    finished: bool
    can_probe: bool  # there are two classes or more, and validation images
    can_evaluate: bool  # it classifies, and there are test images


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
    """A checkpoint with typed records, its tensors by group, and a note of what is damaged and `skipped`."""

    recipe: Recipe
    state: State
    environment: Environment
    tensors: Mapping[str, Mapping[str, Tensor]]
    imported: Mapping[str, Any]  # where an imported model is from
    changes: tuple[str, ...]  # a note for each plugin that has changed
    codec: Codec | None = None  # None if the tensors of the model were not read
    skipped: tuple[str, ...] = ()

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
        head = settings.class_head(recipe.grid, recipe.model.width, len(self.state.classes))
        head.load_state_dict(dict(weights))
        return head


def typed(found: Checkpoint) -> SavedRun:
    """Return a checkpoint with its records typed.

    Raises DamagedCheckpointError for wrong content, such as a codec whose hash is not the one recorded, and
    ValueError if a plugin is not loaded.
    """
    with reported_as_damage(found.path), naming("state.json"):
        state = from_dict(State, found.records["state"])
    with reported_as_damage(found.path), naming("environment.json"):
        environment = from_dict(Environment, found.records["environment"])
    load_remembered(environment.plugins)
    changes = tuple(require_plugins(environment.plugins))
    with reported_as_damage(found.path), naming("recipe.json"):
        recipe = from_dict(Recipe, found.records["recipe"])
    imported = found.records.get("imported", {})
    saved = SavedRun(recipe, state, environment, found.tensors, imported, changes)
    if MODEL not in found.tensors:
        return saved
    with reported_as_damage(found.path):
        with naming("model.safetensors"):
            codec = recipe.model.codec.from_state(found.tensors[MODEL], recipe.grid)
        if (own := codec.fingerprint()) != state.codec:
            raise ValueError(f"palette {own[:12]} is not palette {state.codec[:12]} of its training")
    return replace(saved, codec=codec)


def records_of(
    recipe: Recipe, state: State, environment: Mapping[str, Any], imported: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Return the records of a checkpoint, which `typed` reads; `imported` of an imported model alone."""
    records = {"recipe": to_dict(recipe), "state": to_dict(state), "environment": environment}
    return records | ({"imported": imported} if imported else {})


class CheckpointWriter:
    """Writes one checkpoint at a time, `in_background` from a copy; the next call raises its error."""

    def __init__(self, folder: RunFolder, *, in_background: bool):
        self.folder, self.in_background = folder, in_background
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def save(self, target: Path, tensors: Groups, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Save a checkpoint once the last is complete, of shards each rank its own; keep two of steps."""
        self.wait()
        sharded = {group: members for group, members in tensors.items() if is_sharded(members.values())}
        if self.folder.saved_at is not None:
            if sharded:
                write_shards(sharded)
        elif sharded:
            whole = {group: members for group, members in tensors.items() if group not in sharded}
            self._write(target, whole, records, partial(write_shards, sharded))
        elif not self.in_background or self.folder.target is not None:
            self._write(target, tensors, records)
        else:
            copied = {
                group: {name: tensor.detach().to("cpu", copy=True) for name, tensor in members.items()}
                for group, members in tensors.items()
            }
            self._pending = self._executor.submit(self._write, target, copied, records)

    def check(self) -> None:
        """Raise the error of a checkpoint that could not be written; does not wait."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        self._executor.shutdown()

    def _write(
        self,
        target: Path,
        tensors: Groups,
        records: Mapping[str, Mapping[str, Any]],
        write_more: Callable[[Path], None] = lambda folder: None,
    ) -> None:
        if not self.folder.path.is_dir():
            gone = f"run folder {self.folder.path} was moved or deleted"
            raise RuntimeError(f"{gone}; resume it where it is now")
        checkpoint.save_checkpoint(target, tensors, records, write_more)
        checkpoint.prune(self.folder.checkpoints, NUM_CHECKPOINTS)

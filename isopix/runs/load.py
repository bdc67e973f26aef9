"""Loading a run folder, one of its checkpoints, or a model that comes with the package, as a network."""

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from logging import getLogger
from pathlib import Path
from typing import Any

import torch

from isopix.core.config import to_dict
from isopix.core.device import Precision
from isopix.core.files import read_regular
from isopix.core.text import command_line, count_of, did_you_mean
from isopix.core.verb import float32_default
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import (
    majority_baseline,
    measurement_of,
    missing_class_notes,
    unknown_images_warning,
)
from isopix.data.sources.base import SplitName
from isopix.data.splits import Hashes, Split
from isopix.finetuning.classifier import FineTuneModel
from isopix.model.heads import ClassHead
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel
from isopix.probing.baselines import feature_sources
from isopix.probing.config import ProbeConfig
from isopix.probing.features import FeatureSource, NetworkFeatures
from isopix.recipes import registry
from isopix.recipes.recipe import NETWORK, Recipe
from isopix.runs.image_lists import load_hashes, run_folders
from isopix.runs.state import CLASSIFIER, MODEL, Environment, SavedRun, State, typed
from isopix.storage import checkpoint
from isopix.storage.atomic import MANIFEST, first_folder
from isopix.storage.checkpoint import DamagedCheckpointError
from isopix.storage.log import iterate_log
from isopix.storage.result import Measurement
from isopix.storage.run_folder import LABELED, SEEN, RunFolder

SHIPPED = Path(__file__).parents[1] / "shipped"
COPIES = Path("runs")  # in the current folder: the package cannot be written

logger = getLogger("isopix")


@dataclass(frozen=True)
class LoadedRun:
    """A network with what its checkpoint records; `warnings` of damaged ones and of plugins."""

    recipe: Recipe
    network: Network
    state: State
    environment: Environment | None = None
    imported: Mapping[str, Any] = field(default_factory=dict)  # where an imported model is from
    warnings: tuple[str, ...] = ()
    seen: Hashes | None = None  # hashes of the images that it was trained on or selected by, if known
    labeled: Hashes | None = None  # hashes of the images whose labels it was trained on, if known
    modes: tuple[int, ...] = ()  # the most frequent values of the channels of a code in training, if known
    class_head: ClassHead | None = None  # of a network that was fine-tuned on classes

    @property
    def step(self) -> int:
        return self.state.step

    @property
    def seen_known(self) -> bool:
        """Whether `seen` has all images: not of an imported model, nor of one fine-tuned from it."""
        return self.seen is not None and self.state.seen_known

    @property
    def model(self) -> PretrainModel:
        return PretrainModel(self.network, self.recipe.objective)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits; none without a class head."""
        return () if self.class_head is None else self.state.classes

    def measure(self, data: ImageDataset, split: SplitName, used: Split | None = None) -> Measurement:
        return self.measured(measurement_of(data, split, used))

    def evaluation_measurement(self, data: ImageDataset) -> Measurement:
        notes = missing_class_notes(data, self.state.training_classes)
        warnings = (*(each for each in notes if " test images " in each), *unknown_images_warning(data))
        return replace(self.measure(data, "test"), baselines=majority_baseline(data), warnings=warnings)

    def measured(self, measurement: Measurement) -> Measurement:
        seeds = {"train.seed": self.recipe.train.seed, **measurement.seeds}
        seen, selection = self.state.labels_seen, self.state.selection
        return replace(measurement, labels_seen=seen, selection=selection, seeds=seeds)

    def require_decoder(self, verb: str) -> None:
        """Raise ValueError if the backbone has changed since the decoder was trained."""
        if not self.state.decoder_valid:
            raise ValueError(
                f"{verb} needs the decoder, which does not fit this network: it was fine-tuned without the "
                "generative loss (generative_weight=0); use the pre-trained run, or fine-tune with "
                "generative_weight above 0 until the validation loss is below the unigram baseline"
            )

    def finetuned(self, path: Path | str | None = None) -> FineTuneModel:
        """Return the network with its class head. Raises ValueError, naming `path`, if it has none."""
        settings, name = self.recipe.finetune, "this model" if path is None else f"run {path}"
        if settings is None or self.class_head is None:
            finetune = command_line("finetune", path or "RUN", "--out", "OUT")
            missing = f"{name} is not fine-tuned on classes and has no class head"
            raise ValueError(f"{missing}; to do so: {finetune}")
        model = FineTuneModel(self.model, self.recipe.model.width, len(self.classes), settings)
        model.head = self.class_head
        return model

    def feature_sources(
        self, data: ImageDataset, config: ProbeConfig, precision: Precision
    ) -> dict[str, FeatureSource]:
        settings = {name: values for name, values in to_dict(self.recipe).items() if name in NETWORK}
        network = self.recipe.build(self.network.codec).to(self.network.device).eval()
        trained = NetworkFeatures(self.model, precision, settings, config=config)
        untrained = PretrainModel(network, self.recipe.objective)
        return feature_sources(trained, untrained, data, self.recipe.model.width)

    def untrained(self) -> Network:
        """Return an untrained network of depth 1; position embeddings do not depend on the depth."""
        return self.recipe.updated(depth=1).build(self.network.codec).to(self.network.device)


@float32_default()
def load_run(path: Path, *, device: torch.device) -> LoadedRun:
    """Return the network of a checkpoint or of a run: its best checkpoint, or the newest intact one."""
    saved = find_weights(path)
    head = saved.class_head()
    return LoadedRun(
        saved.recipe,
        saved.network().to(device),
        saved.state,
        saved.environment,
        imported=saved.imported,
        warnings=(*saved.skipped, *saved.changes),
        seen=load_hashes(path, SEEN, saved.state.files),
        labeled=load_hashes(path, LABELED, saved.state.files),
        modes=_most_frequent_codes(path),
        class_head=None if head is None else head.to(device),
    )


def _most_frequent_codes(path: Path) -> tuple[int, ...]:
    for folder in run_folders(path):
        log = RunFolder(folder).log
        for record in iterate_log(log, "baselines") if log.is_file() else ():
            return tuple(record["modes"])
    return ()


def find_weights(path: Path) -> SavedRun:
    """Return the best weights of a run that selects them (or, noted, its newest); else `find_checkpoint`."""
    groups = (MODEL, CLASSIFIER), (CLASSIFIER,)  # and those that a run may lack
    try:
        return typed(checkpoint.load_checkpoint(RunFolder(path).best, *groups))
    except DamagedCheckpointError as error:
        saved = find_checkpoint(path, *groups)
        if not saved.recipe.selects_step or (path / MANIFEST).is_file():
            return saved
        used = f"{error}; the weights of step {saved.state.step} are used, which validation did not choose"
        state = replace(saved.state, selection="")
        return replace(saved, state=state, skipped=(used, *saved.skipped))


def find_checkpoint(
    path: Path, groups: Collection[str] | None = None, optional: Collection[str] = ()
) -> SavedRun:
    """Return the newest intact checkpoint of a run, or that at a path, and a note of damaged newer ones."""
    newest = newest_checkpoint(path)

    def load(folder: Path) -> SavedRun:
        return typed(checkpoint.load_checkpoint(folder, groups, optional))

    if newest == path:
        return load(path)
    saved, damaged = checkpoint.load_latest(newest.parent, load)
    assert saved is not None, "there is a newest one"
    if not damaged:
        return saved
    first, *others = damaged
    older = f", and {count_of(len(others), 'older one')}" if others else ""
    return replace(saved, skipped=(f"skipped damaged {first}{older}",))


def saved_recipe(path: Path) -> Recipe:
    """Return the recipe of a run or checkpoint folder. Raises what `find_checkpoint` raises."""
    return find_checkpoint(path, ()).recipe


def newest_checkpoint(path: Path) -> Path:
    """Return the checkpoint folder at a path, or the newest of a run folder, intact or not."""
    if checkpoint.is_checkpoint(path):
        return path
    last = checkpoint.latest_folder(RunFolder.open(path).checkpoints)
    if last is None:
        raise ValueError(f"run folder {path} has no checkpoint; start it again with another --out")
    return last


def shipped_models() -> dict[str, Path]:
    """Return the folders of all models by name."""
    return {path.parent.name: path.parent for path in sorted(SHIPPED.glob("*/recipe.json"))}


def trained_hint(recipe: str) -> str:
    """Return the trained models of a recipe as the part of a sentence; empty if there is none."""
    own = [name for name in shipped_models() if name.startswith(f"{recipe}-")]
    return f"its trained model is {', '.join(own)}; " if own else ""


def find_model(path: Path) -> Path:
    """Return the folder in the package for the name of a model, and any other path as it is.

    Raises ValueError for a name alone that is a recipe's, or almost that of a model.
    """
    name, models = str(path), shipped_models()
    if path.exists() or len(path.parts) > 1:
        return path
    if name in models:
        return models[name]
    if name in registry.RECIPES:
        train = command_line("pretrain", name, "--out", COPIES / name)
        raise ValueError(f"'{name}' is a recipe without weights; {trained_hint(name)}to train it: {train}")
    if hint := did_you_mean(name, [*models, *registry.RECIPES]):
        known = f"models: {', '.join(models)}; recipes: isopix list recipes"
        raise ValueError(f"no run folder, model or recipe '{name}'; {hint}{known}")
    return path


def writable_model(path: Path) -> Path:
    """Return a path that exists as it is; for a model of the package its copy `runs/NAME`, made if needed."""
    source = find_model(path)
    if source.parent != SHIPPED:
        return source
    name, copy = source.name, COPIES / source.name
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        with first_folder(copy) as folder:  # of several processes one succeeds, and a kill leaves no part
            shutil.copytree(source, folder, dirs_exist_ok=True)
        logger.warning("%s comes with isopix; it is copied to %s, where its results are saved", name, copy)
    elif _manifests(copy) != _manifests(source):
        other = f"{copy} is another run than the model {name} that comes with isopix"
        raise ValueError(f"{other}; give its path, or move it")
    return copy


def _manifests(run: Path) -> list[bytes]:
    return [read_regular(each) for each in sorted(run.glob(f"checkpoints/*/{MANIFEST}"))]

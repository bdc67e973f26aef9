"""A trial of the study: a network is trained, probed and measured."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from isopix.analysis.embeddings import LevelSimilarity, embedding_similarity
from isopix.analysis.inductive_biases import color_error
from isopix.core.config import to_dict
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.load import load_dataset
from isopix.generate.complete import Reconstruction, reconstruct_images
from isopix.model.positions import Pool
from isopix.probing.baselines import PixelFeatures
from isopix.probing.config import ProbeConfig
from isopix.probing.features import FeatureSource, read_splits
from isopix.probing.probe import EvaluatedProbe, ProbeMethod, evaluate_probe, probe_measurement
from isopix.probing.results import PIXEL_COMPONENTS, RAW_PIXELS
from isopix.runs.load import LoadedRun, load_run
from isopix.runs.results import LRTrial
from isopix.runs.series import train_at_lr, trial_recipe
from isopix.runs.start import TrainingStart
from isopix.runs.training_log import RunObserver, unigram_nats, validation_measurement
from isopix.storage.arrays import npz_bytes
from isopix.storage.atomic import read_json, replace_file
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.studies.inductive_bias.evidence import pack_correct
from isopix.studies.inductive_bias.results import (
    STUDY_POOLS,
    Architecture,
    PoolProbes,
    ProbedLayers,
    Trial,
    TrialResult,
)
from isopix.studies.trial import StudyTrial, orphaned, recorded_environment, sampled

EXAMPLE_DEPTH = 3  # largest depth of an example (the paper's figure 5)


@dataclass(frozen=True)
class BiasTrial(StudyTrial):
    """A network of the study; learning rates `lrs` are tried from the first on."""

    outcome: ClassVar[type[TrialResult]] = TrialResult

    architecture: Architecture
    lrs: tuple[float, ...]
    probe: ProbeMethod
    probe_images: Mapping[str, int]

    def run_at(self, lr: float) -> Path:
        """Return the run folder of a learning rate."""
        return self.run if lr == self.lrs[0] else self.run.with_name(f"{self.name}-lr-{lr}")

    @property
    def example(self) -> Path:
        """The file of the trial's pictures, if it is an example of its block."""
        return self.result.with_suffix(".npz")

    @property
    def is_example(self) -> bool:
        """Whether a trial may represent its block: with pix2vec, of the first seed, and of few blocks."""
        _, encoding, depth = self.architecture
        return encoding == "pix2vec" and self.recipe.train.seed == 0 and depth <= EXAMPLE_DEPTH

    def measure(self, device: torch.device) -> None:
        if trained := _train(self, device):
            self.write(_measured(self, trained, device))


def _train(trial: BiasTrial, device: torch.device) -> LRTrial | None:
    """Train at the largest learning rate that does not diverge; None if asked to stop."""
    start, observer = TrainingStart(trial_recipe(trial.recipe)), RunObserver(stop=orphaned)
    for lr in trial.lrs:
        before = trial.read()
        if lr in [each.lr for each in before.lr_trials if each.status != "completed"]:
            continue
        found = train_at_lr(start, lr, trial.run_at(lr), device=device, observer=observer)
        if found is None:
            return None
        others = tuple(each for each in before.lr_trials if each.lr != lr)
        trial.write(replace(before, status="not run", reason="", traceback="", lr_trials=(*others, found)))
        if found.loss is not None:
            return found
    first, last = trial.lrs[0], trial.lrs[-1]
    raise RuntimeError(f"the loss diverged at every learning rate from {first:g} down to {last:g}")


def _measured(trial: BiasTrial, trained: LRTrial, device: torch.device) -> TrialResult:
    began, folder = time.monotonic(), RunFolder(trial.run_at(trained.lr))
    loaded = load_run(folder.path, device=device)
    loaded.network.eval()
    data = sampled(load_dataset(loaded.recipe.data), trial.probe_images)
    probes = probe_pools(loaded, data, trial.probe)
    baselines = {name: each.test_accuracy for name, each in probes[STUDY_POOLS[0]].baselines.items()}
    measurement = probe_measurement(loaded.measure(data, "test"), data, trial.probe, ProbeConfig(), baselines)
    log, environment, groups = read_log(folder.log), read_json(folder.environment), data.test.groups
    unigram = unigram_nats(log)
    metrics = {
        "images": {name: len(getattr(data, name)) for name in trial.probe_images},
        "measurement": to_dict(measurement),
        "measurements": measure(loaded, data.test.images[:], trial.example if trial.is_example else None),
        "loss_measurement": {
            **validation_measurement(log),
            "baselines": {} if unigram is None else {"unigram": unigram},
        },
    }
    return TrialResult(
        status="done",
        run=folder.path.name,
        lr_trials=trial.read().lr_trials,
        training_seconds=trained.seconds,
        probing_seconds=time.monotonic() - began,
        trial=Trial(*trial.architecture, trial.recipe.train.seed, float(trained.loss or 0.0), probes),
        metrics=metrics,
        environment=recorded_environment(environment),
        test_groups=() if groups is None else tuple(groups.tolist()),
    )


RECONSTRUCTION_IMAGES, EXAMPLE_IMAGES = 256, 6
PICTURES = ("original", "pixel_mask", "target", "prediction")


def measure(loaded: LoadedRun, images: Images, example: Path | None = None) -> dict[str, Any]:
    """Return color errors of reconstructions, and similarity of levels by channel.

    Pictures are written to the file `example`, if one is given.
    """
    seed = loaded.recipe.train.seed
    found = _reconstruct(loaded, images[:RECONSTRUCTION_IMAGES], seed)
    error = color_error(found.target, found.mask, found.prediction)
    encodings = list(map(embedding_similarity, loaded.network.backbone.stem.value_table()))
    if example is not None:
        pictures = _reconstruct(loaded, images[:EXAMPLE_IMAGES], seed)
        _write_example(example, pictures, encodings[0])
    return {
        "color_error": {
            "mean_absolute": error.mean_absolute,
            "histogram": error.histogram,
            "misplaced_fraction": error.misplaced_fraction,
            "exact_fraction": found.accuracy,
        },
        "distance_preservation": [each.distance_preservation for each in encodings],
        "local_similarity": [each.local_similarity for each in encodings],
    }


def _write_example(path: Path, found: Reconstruction, red: LevelSimilarity) -> None:
    arrays = {
        **{name: getattr(found, name).numpy() for name in PICTURES},
        "exact": found.accuracy,
        **red._replace(similarity=red.similarity.astype(np.float16))._asdict(),
    }
    replace_file(path, npz_bytes({name: np.asarray(each) for name, each in arrays.items()}))


def probe_pools(loaded: LoadedRun, data: ImageDataset, method: ProbeMethod) -> dict[Pool, PoolProbes]:
    """Probe every layer under each pool, the untrained network, all pixels, and their components."""
    device, found = loaded.network.device, dict[Pool, PoolProbes]()
    precision = loaded.recipe.train.precision_on(device)

    def probe(name: str, source: FeatureSource) -> EvaluatedProbe:
        return evaluate_probe(read_splits(name, source, data), method, ProbeConfig(), device=device)

    pixels = _probed_layers(probe(RAW_PIXELS, PixelFeatures()))
    for pool in STUDY_POOLS:
        sources = loaded.feature_sources(data, ProbeConfig(pool=pool), precision)
        del sources[RAW_PIXELS]  # the same under each pool
        probed = {name: probe(name, source) for name, source in sources.items()}
        network, components = probed["trained"], probed.get(PIXEL_COMPONENTS)
        found[pool] = PoolProbes(
            network=_probed_layers(network, keep_all=True),
            untrained=_probed_layers(probed["untrained"]),
            raw_pixels=pixels,
            pixel_components=None if components is None else _probed_layers(components),
            majority=network.result.majority_accuracy,
        )
    return found


def _probed_layers(probed: EvaluatedProbe, *, keep_all: bool = False) -> ProbedLayers:
    layers, correct = probed.result.layers, probed.correct.cpu().numpy()
    kept = range(len(layers)) if keep_all else [probed.result.best_index]
    return ProbedLayers(
        test_accuracies=tuple(score.test_accuracy for score in layers),
        validation_accuracies=tuple(score.val_accuracy for score in layers),
        best_layer=probed.result.best_index,
        correct=tuple(pack_correct(correct[layer]) for layer in kept),
        num_images=correct.shape[1],
    )


def _reconstruct(loaded: LoadedRun, images: Images, seed: int) -> Reconstruction:
    images = images.to(loaded.network.device)
    return reconstruct_images(loaded.model, images, generator=generator(seed, "hide"))

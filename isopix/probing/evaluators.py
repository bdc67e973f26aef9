"""Evaluators that measure features during training: k-nearest neighbors and a linear probe."""

from dataclasses import replace

import torch

from isopix.core.config import to_dict
from isopix.core.device import Precision
from isopix.core.registry import register
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.load import load_dataset
from isopix.data.measurement import measurement_of
from isopix.data.splits import Split
from isopix.model.network import Network
from isopix.model.positions import Pool, default_pool, require_pool
from isopix.probing.config import ProbeConfig
from isopix.probing.features import extract_features
from isopix.probing.methods import L2_PENALTY, LbfgsProbe, knn_accuracy
from isopix.probing.probe import evaluate_probe
from isopix.probing.splits import FeatureSplit, FeatureSplits
from isopix.storage.atomic import write_json
from isopix.storage.result import Measurement
from isopix.train.evaluator import EvaluationContext, EvaluationError, Evaluator, EvaluatorSpec, Metrics

METHOD = LbfgsProbe(l2_grid=(1e-4, 1e-3, 1e-2, 1e-1, 1.0))  # a fifth of the work of the default grid


@register("knn")
class KNNAccuracy(EvaluatorSpec):
    """k-NN accuracy of validation images in the middle layer, where linear probes peak (iGPT section 4.1)."""

    num_images: int = 1000
    """Images of each split, the same at every evaluation."""
    pool: Pool | None = None
    """Pooling of the features; null: the class token if there is one, or else the mean over positions."""

    def check_data(self, data: ImageDataset) -> None:
        data.require_labels("knn_images")

    def measurement(self, data: ImageDataset) -> Measurement:
        return measurement_of(data, "validation", data.validation.sample(self.num_images))

    def start(self, context: EvaluationContext) -> Evaluator:
        data, network = context.data, context.network
        require_pool(self.pool or "mean", network.backbone.grid)

        def middle_layer(split: Split) -> FeatureSplit:
            truncated = network.truncated(network.backbone.depth // 2)
            images = split.sample(self.num_images)
            return _features(truncated, images, context.precision, self.pool).map(lambda layers: layers[-1:])

        def evaluate(step: int) -> Metrics:
            if not len(data.validation):
                return {}
            return {"knn_accuracy": knn_accuracy(middle_layer(data.train), middle_layer(data.validation))[0]}

        return evaluate


@register("linear_probe")
class LinearProbe(EvaluatorSpec):
    """`probe_accuracy` of the best layer on one half of the validation images, selected on the other."""

    num_train: int = 1000
    """Training images."""
    num_val: int = 500
    """Most validation images of each half."""
    source: str | None = None
    """Labeled images, by name or path, at the resolution of pre-training; null: those of pre-training."""
    pool: Pool | None = None
    """Pooling of the features; null: the class token if there is one, or else the mean over positions."""

    def check_data(self, data: ImageDataset) -> None:
        data = self._labeled(data)
        data.require_labels("probe_every")
        if len(data.validation) < 2:
            raise ValueError(
                "probe_every needs two or more validation images, to select by and to evaluate on, and there "
                f"are {len(data.validation)}; set data.holdout=0.1 and data.train_on_validation=false"
            )

    def measurement(self, data: ImageDataset) -> Measurement:
        data = self._labeled(data)
        selecting, evaluated = self._halves(data)
        selection = f"layer and L2 penalty chosen on {len(selecting):,} other validation images"
        return replace(measurement_of(data, "validation", evaluated), selection=selection)

    def _labeled(self, data: ImageDataset) -> ImageDataset:
        if self.source is None:
            return data
        *_, rows, cols = data.train.images[:1].shape
        return load_dataset(DataConfig(source=self.source, rows=rows, cols=cols))

    def _halves(self, data: ImageDataset) -> tuple[Split, Split]:
        half = min(self.num_val, len(data.validation) // 2)
        chosen = data.validation.sample(2 * half)
        return chosen.select(torch.arange(0, 2 * half, 2)), chosen.select(torch.arange(1, 2 * half, 2))

    def start(self, context: EvaluationContext) -> Evaluator:
        data, network = self._labeled(context.data), context.network
        require_pool(self.pool or "mean", network.backbone.grid)
        selecting, evaluated = self._halves(data)

        def evaluate(step: int) -> Metrics:
            splits = (data.train.sample(self.num_train), selecting, evaluated)
            try:
                read = (_features(network, split, context.precision, self.pool) for split in splits)
                train, validation, test = read
                parts = FeatureSplits(train, validation, test)
                found = evaluate_probe(parts, METHOD, ProbeConfig(), device=network.device).result
            except RuntimeError as error:
                raise EvaluationError(str(error).splitlines()[0]) from error
            layers = [
                {"layer": each.layer, "l2": each.selected[L2_PENALTY], "accuracy": each.test_accuracy}
                | {"low": each.interval[0], "high": each.interval[1]}
                for each in found.layers
            ]
            if context.folder is not None:
                history = context.folder.history  # whose path changes once, after step 0
                history.mkdir(parents=True, exist_ok=True)
                record = {
                    "kind": "linear probe",
                    "step": step,
                    "split": "validation",
                    "images": found.num_images,
                    "pool": self.pool or default_pool(network.backbone.num_prefix_tokens),
                    "best": found.best_index,
                    "classes": found.num_classes,
                    "majority_accuracy": found.majority_accuracy,
                    "layers": layers,
                    "measurement": to_dict(self.measurement(data)),
                }
                write_json(history / f"step-{step:08d}.json", record)
            best = {f"probe_{name}": value for name, value in layers[found.best_index].items()}
            return {**best, "probe_images": len(evaluated)}

        return evaluate


def _features(network: Network, split: Split, precision: Precision, pool: Pool | None) -> FeatureSplit:
    assert split.labels is not None, "checked by check_data"
    return FeatureSplit(extract_features(network, split.images, pool=pool, precision=precision), split.labels)

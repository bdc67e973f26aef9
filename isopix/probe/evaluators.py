"""Evaluators that measure features during training: k-nearest neighbors and a linear probe."""

from typing import Any

import torch

from isopix.core.random import generator
from isopix.core.registry import register
from isopix.data import splits
from isopix.data.dataset import ImageSet
from isopix.probe.feature_splits import Split, Splits
from isopix.probe.features import extract
from isopix.probe.knn import neighbours
from isopix.probe.probe import probe
from isopix.probe.results import LayerScore, Protocol
from isopix.storage.atomic import write_json
from isopix.train.evaluator import EvaluationContext, EvaluationError, Evaluator, EvaluatorSpec, Metrics

L2_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # a fifth of the work of a probe's usual grid
PROBE_CONFIG = Protocol(strengths=L2_GRID, weaker=())


@register("knn")
class KNNAccuracy(EvaluatorSpec):
    """`knn_accuracy` of validation images, classified by their nearest neighbors among training images.

    `num_images` of each split, the same at every evaluation. The features are those of the middle layer,
    where linear probes peak (iGPT section 4.1).
    """

    num_images: int = 1000

    def check_data(self, data: ImageSet) -> None:
        data.require_labels("knn_images")

    def start(self, context: EvaluationContext) -> Evaluator:
        data, backbone = context.data, context.network.backbone

        def features(split: splits.Split) -> Split:
            order = torch.randperm(len(split), generator=generator(context.seed, "neighbours"))
            images = split.take(order[: self.num_images])
            assert images.labels is not None, "checked by check_data"
            middle = backbone.upto(backbone.depth // 2)
            return Split(extract(middle, images.images, precision=context.precision)[-1:], images.labels)

        def evaluate(step: int) -> Metrics:
            if not len(data.validation):
                return {}
            return {"knn_accuracy": neighbours(features(data.train), features(data.validation))[0]}

        return evaluate


@register("linear_probe")
class LinearProbe(EvaluatorSpec):
    """`probe_accuracy` of the best layer, by a linear probe of every layer; test images are not used.

    Fitted to the first `num_train` training images. The L2 penalty and the layer are selected on half of the
    validation images, at most `num_val`, and the accuracy is that on as many others, with its 95 % interval.
    The results of all layers go to the history folder.
    """

    num_train: int = 1000
    num_val: int = 500

    def check_data(self, data: ImageSet) -> None:
        data.require_labels("probe_every")
        if len(data.validation) < 2:
            raise ValueError(
                "probe_every needs two or more validation images, to select by and to evaluate on, and there "
                f"are {len(data.validation)}; set data.holdout=0.1 and data.fold_back=false"
            )

    def start(self, context: EvaluationContext) -> Evaluator:
        data, network = context.data, context.network

        def features(split: splits.Split) -> Split:
            assert split.labels is not None, "checked by check_data"
            return Split(extract(network.backbone, split.images, precision=context.precision), split.labels)

        def evaluate(step: int) -> Metrics:
            half = min(self.num_val, len(data.validation) // 2)
            evaluated = data.validation.take(torch.arange(half, 2 * half))
            try:
                parts = Splits(
                    train=features(data.train.first(self.num_train)),
                    validation=features(data.validation.first(half)),
                    test=features(evaluated),
                )
                found = probe(parts, PROBE_CONFIG, device=network.device)
            except RuntimeError as error:
                raise EvaluationError(str(error).splitlines()[0]) from error
            layers = [_as_record(score) for score in found.layers]
            if context.history is not None:
                context.history.mkdir(parents=True, exist_ok=True)
                record = {
                    "kind": "linear probe",
                    "step": step,
                    "split": "validation",
                    "images": found.images,
                    "best": found.best,
                    "classes": found.classes,
                    "majority": found.majority,
                    "layers": layers,
                }
                write_json(context.history / f"step-{step:08d}.json", record)
            best = {f"probe_{name}": value for name, value in layers[found.best].items()}
            return {**best, "probe_images": half}

        return evaluate


def _as_record(score: LayerScore) -> dict[str, Any]:
    return {
        "layer": score.layer,
        "l2": score.strength,
        "accuracy": score.test,
        "low": score.low,
        "high": score.high,
    }

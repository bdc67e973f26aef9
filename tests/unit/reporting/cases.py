"""Run folders in every state, made by the package's own writers."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from isopix.codecs.patches import FullPatchSpec
from isopix.core.choices import Pool
from isopix.core.config import to_dict
from isopix.data.dataset import ImageDataset
from isopix.data.splits import Split
from isopix.finetuning.classifier import FineTuneConfig
from isopix.finetuning.results import CalibrationBin, ClassificationMetrics, EvaluationResult
from isopix.model.heads import RegressionHeadSpec
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.probing.config import ProbeConfig
from isopix.probing.methods import LbfgsProbe
from isopix.probing.results import Gain, LayerScore, LayerScores, ProbeResult
from isopix.recipes import igpt
from isopix.recipes.recipe import Recipe
from isopix.runs.pretrain import save_data_sample
from isopix.storage import checkpoint
from isopix.storage.result import EnsembleAccuracy, Measurement
from isopix.storage.run_folder import RunFolder
from tests.trained import create_run

GRAYS = 17


ENVIRONMENT = dict.fromkeys(("torch", "pillow", "python", "platform", "isopix", "started"), "1")
ENVIRONMENT |= {"device": "cpu", "threads": 2, "command": ["isopix", "pretrain"]}


def call(verb: str, written: str = "2026-01-01T00:00:00+00:00") -> dict[str, Any]:
    """The call of a verb, as its results keep it."""
    command = ["isopix", verb, "/home/someone/runs/a"]
    return {"verb": verb, "arguments": {}, "written": written, "command": command, "folder": "/home/someone"}


def measurement(**changes: Any) -> Measurement:
    values = {"data": "digits", "split": "test", "images": 180, "available": 180, "images_hash": "a"}
    return Measurement(**{**values, **changes})


def scores(accuracies: Sequence[float], half: float = 0.02) -> LayerScores:
    """The best of these layers is chosen on validation; of several, one more is better on test images."""
    layers = [
        LayerScore(layer, test / 2, test, (test - half, test + half), {"L2 penalty": 1.0})
        for layer, test in enumerate(accuracies)
    ]
    if len(layers) > 1:
        test = max(accuracies) + 0.1
        layers.append(LayerScore(len(layers), 0.05, test, (test - half, test + half), {"L2 penalty": 2.0}))
    return LayerScores(
        layers=tuple(layers),
        best_index=max(range(len(accuracies)), key=lambda layer: accuracies[layer]),
        num_classes=10,
        majority_accuracy=0.1,
        num_images={"train": 1437, "validation": 180, "test": 180},
        num_features=64,
    )


def evidence(
    trained: Sequence[float] = (0.3, 0.5, 0.4),
    untrained: Sequence[float] = (0.3, 0.2, 0.2),
    pixels: float = 0.4,
    half: float = 0.02,
    **changes: Any,
) -> ProbeResult:
    """A probe whose best baseline is raw pixels."""
    found = ProbeResult(
        call=call("probe"),
        measurement=measurement(),
        data="digits",
        step=100,
        precision="fp32",
        config=ProbeConfig(pool="mean"),
        method=to_dict(LbfgsProbe()),
        label=LbfgsProbe().label(),
        network=scores(trained, half),
        baselines={
            "raw pixels": scores([pixels], half),
            "untrained": scores(untrained, half),
            "shuffled labels": scores([0.1], half),
        },
        gain=Gain("raw pixels", max(trained) - pixels, (max(trained) - pixels - half, 1.0)),
    )
    return replace(found, **changes)


def records() -> list[dict[str, Any]]:
    """A log of 100 steps."""
    train = [
        {
            "kind": "train",
            "step": step,
            "images": 8 * step,
            "loss_nats": 2.8 - step / 100,
            "seconds": step / 2,
            "peak_memory_bytes": 2**30,
        }
        for step in range(10, 101, 10)
    ]
    held_out = {"kind": "evaluation", "images": 64}
    validation, test = (
        {"measurement": to_dict(measurement(split=split, images=64, available=64))}
        for split in ("validation", "test")
    )
    return [
        {"kind": "measurement", "step": 0, "evaluator": "held_out_loss", "text": "", **validation},
        {**held_out, "step": 0, "split": "validation", "loss_nats": 2.833},
        *train,
        {**held_out, "step": 100, "split": "validation", "loss_nats": 1.9},
        {**held_out, "step": 100, "split": "test", "loss_nats": 1.8, **test},
    ]


def baselines(split: str = "test") -> dict[str, Any]:
    """The learning-free baselines of a run, as in its log."""
    nats = {"unigram": 2.071, "top neighbor": 1.766, "PNG": 2.33}
    return {"kind": "baselines", "step": 0, "held_out": split, "images": 60, "modes": [0], "nats": nats}


def regression() -> Recipe:
    """A network whose untrained prediction is not uniform."""
    parts = {"codec": FullPatchSpec(patch_size=2), "stem": PatchEmbedSpec(), "head": RegressionHeadSpec()}
    return igpt.digits_bert().updated(**parts)


def bare(path: Path, recipe: Recipe | None = None) -> RunFolder:
    """A run that has just begun."""
    run = create_run(path)
    run.recipe.write_text(json.dumps(to_dict(recipe or igpt.digits())))
    return run


def write_log(run: RunFolder, lines: Sequence[dict[str, Any]]) -> None:
    run.log.write_text("".join(json.dumps(each) + "\n" for each in lines))


def whole(
    path: Path, recipe: Recipe | None = None, found: ProbeResult | None = None, **environment: Any
) -> RunFolder:
    """A run with weights, a palette, labeled images and a probe."""
    run = bare(path, recipe)
    given = {**ENVIRONMENT, "command": ["isopix", "pretrain", "--data", "/home/someone/a b"], **environment}
    run.environment.write_text(json.dumps(given))
    write_log(run, [*records(), baselines()])
    colors = torch.arange(GRAYS)[:, None].expand(-1, 3) * 15
    tensors = {"codec.color_bits": colors.float().view(torch.int32), "head.weight": torch.zeros(3, 4)}
    folder = checkpoint.step_folder(run.checkpoints, 100)
    checkpoint.save_checkpoint(folder, {"model": tensors}, {"state": {"step": 100}})
    save_data_sample(run, dataset(10))
    (found or evidence()).saved(run.probes / "probe.json")
    return run


def fine_tuned(path: Path, pool: Pool = "mean") -> RunFolder:
    """A fine-tuned run that was evaluated."""
    settings = FineTuneConfig(generative_weight=0.5, layer=1, pool=pool)
    run = bare(path, replace(igpt.digits_bert(), finetune=settings))
    run.environment.write_text(json.dumps(ENVIRONMENT | {"majority": 0.102}))
    seen = {"kind": "evaluation", "loss_nats": 1.7, "class_nats": 2.0, "split": "validation", "images": 64}
    validation = [
        {**seen, "step": step, "accuracy": accuracy} for step, accuracy in ((0, 0.1), (10, 0.5), (20, 0.4))
    ]
    measured = to_dict(measurement(baselines={"majority class": 0.1}))
    test = {**seen, "step": 10, "split": "test", "accuracy": 0.6, "images": 180, "interval": [0.53, 0.67]}
    write_log(run, [*validation, {**test, "measurement": measured}])
    by_class: Any = {"per_class_accuracy": (0.5, 0.7), "confusion_matrix": ((1, 0), (0, 1))}
    one_mask = EnsembleAccuracy(0.6, 0.6)
    bins: Any = {"calibration_error": 0.1, "calibration": (CalibrationBin(180, 0.7, 0.6),)}
    metrics = ClassificationMetrics(180, 0.6, (0.53, 0.67), 1.2, 0.9, **by_class, ensemble=one_mask, **bins)
    about: Any = {"data": "digits", "step": 10, "mask_ensemble": 0, "precision": "fp32"}
    given: Any = {"call": call("evaluate"), "measurement": measurement(), "classes": ("a", "b")}
    EvaluationResult(**about, **given, metrics=metrics).saved(run.evaluations / "evaluate.json")
    return run


def imported(path: Path) -> RunFolder:
    """A model that was converted: no log, and only some settings are stated."""
    run = bare(path)
    stated = {"imported": "openai/igpt-s", "trained_on": "/data/imagenet"}
    run.environment.write_text(json.dumps(ENVIRONMENT | stated))
    return run


def dataset(classes: int) -> ImageDataset:
    """Gray noise with labels, or without any where there are no classes."""
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (max(60, 3 * classes), 3, 8, 8), dtype=torch.uint8, generator=draws)
    split = Split(images, torch.arange(len(images)) % classes if classes else None)
    names = tuple(f"class {place}" for place in range(classes))
    return ImageDataset("photos", names, split, split, split, "x")


def words(text: str) -> str:
    """The text of a page, a line for each element, without its tags and style."""
    plain = re.sub(r"<style>.*?</style>|<svg.*?</svg>|</?(span|b|code|a)\b[^>]*>", "", text, flags=re.DOTALL)
    lines = re.sub(r"<[^>]*>", "\n", plain.replace("\u00a0", " ")).split("\n")
    return "\n".join(line for each in lines if (line := " ".join(each.split())))

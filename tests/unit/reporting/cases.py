"""Run folders in every state, made by the package's own writers."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from isopix.codecs.patch import FullPatchSpec
from isopix.core.config import to_dict
from isopix.core.measurement import Measurement
from isopix.generate.config import SamplingConfig
from isopix.generate.results import CompletionResult, ReconstructionResult, SampleResult
from isopix.model.heads import RegressionHeadSpec
from isopix.model.stems.patches import PatchEmbedSpec
from isopix.probing.config import ProbeConfig
from isopix.probing.linear import LbfgsProbe
from isopix.probing.results import FewLabels, LayerScore, LayerScores, LowDataResult, ProbeResult
from isopix.recipes import igpt
from isopix.recipes.recipe import Recipe
from isopix.storage import checkpoint
from isopix.storage.run_folder import RunFolder
from tests.run_folders import create_run

GRAYS = 17
CALL = {"verb": "probe", "arguments": {}, "command": ["isopix", "probe", "a"], "written": "", "folder": ""}


def score(layer: int, test: float, half: float = 0.02) -> LayerScore:
    return LayerScore(layer, test, test, (test - half, test + half), {"L2 penalty": 0.1}, {"objective": 1.0})


def record(accuracies: Sequence[float], half: float = 0.02) -> LayerScores:
    best = max(range(len(accuracies)), key=lambda layer: accuracies[layer])
    return LayerScores(
        layers=tuple(score(layer, test, half) for layer, test in enumerate(accuracies)),
        best_index=best,
        num_classes=10,
        majority_accuracy=0.1,
        num_images={"train": 1437, "validation": 180, "test": 180},
        num_features=16,
    )


def measurement(**changes: Any) -> Measurement:
    values = {"data": "digits", "split": "test", "images": 180, "available": 180, "images_hash": "a"}
    return Measurement(**{**values, **changes})


def evidence(
    trained: Sequence[float] = (0.3, 0.5, 0.4),
    untrained: Sequence[float] = (0.3, 0.2, 0.2),
    pixels: float = 0.4,
    half: float = 0.02,
) -> ProbeResult:
    baselines = {
        "raw pixels": record([pixels], half),
        "untrained": record(untrained, half),
        "shuffled labels": record([0.1], half),
    }
    method = LbfgsProbe()
    return ProbeResult(
        call=CALL,
        data="digits",
        step=100,
        precision="fp32",
        config=ProbeConfig(pool="mean"),
        method=to_dict(method),
        label=method.label(),
        network=record(trained, half),
        baselines=baselines,
        measurement=measurement(),
    )


def few_labels() -> LowDataResult:
    """Probes with two numbers of labels, and fine-tuning."""

    def found(errors: list[float], layers: tuple[int, ...]) -> tuple[FewLabels, ...]:
        return tuple(FewLabels(n, 10 * n, 1234, layers, tuple(errors), 60, 16) for n in (5, 100))

    return LowDataResult(
        call={**CALL, "verb": "low_data"},
        data="photos",
        step=40,
        precision="fp32",
        select="validation",
        pool="mean",
        method=to_dict(LbfgsProbe()),
        results={"trained": found([0.5, 0.6, 0.7], (3,)), "fine-tuned": found([0.4] * 3, ())},
    )


def records() -> list[dict[str, Any]]:
    numbers = {"learning_rate": 0.003, "images_per_second": 100.0}
    train = [
        {
            "kind": "train",
            "step": step,
            "images": 8 * step,
            "loss_nats": 2.8 - step / 100,
            "seconds": step / 2,
        }
        | numbers
        for step in range(10, 101, 10)
    ]
    held_out = {"kind": "evaluation", "images": 64}
    return [
        {**held_out, "step": 0, "split": "validation", "loss_nats": 2.833},
        *train,
        {**held_out, "step": 100, "split": "validation", "loss_nats": 1.9},
        {**held_out, "step": 100, "split": "test", "loss_nats": 1.8},
    ]


def regression() -> Recipe:
    """A network whose untrained prediction is not uniform."""
    return igpt.digits_bert().updated(
        codec=FullPatchSpec(patch_size=2),
        stem=PatchEmbedSpec(),
        head=RegressionHeadSpec(),
    )


def baselines(split: str = "test") -> dict[str, Any]:
    """The learning-free baselines of a run, as in its log."""
    nats = {"unigram": 2.071, "top neighbor": 1.766, "PNG": 2.33}
    return {
        "kind": "baselines",
        "step": 0,
        "held_out": split,
        "images": 60,
        "train_images": 1437,
        "nats": nats,
    }


def bare(path: Path, recipe: Recipe | None = None) -> RunFolder:
    """A run that has just begun."""
    run = create_run(path)
    run.recipe.write_text(json.dumps(to_dict(recipe or igpt.digits())))
    return run


def whole(path: Path, recipe: Recipe | None = None, found: ProbeResult | None = None) -> RunFolder:
    """A run with every file."""
    recipe = recipe or igpt.digits()
    run = bare(path, recipe)
    run.environment.write_text(
        json.dumps({"device": "cpu", "threads": 2, "commit": None, "command": ["isopix", "pretrain", "a b"]})
    )
    run.log.write_text("".join(json.dumps(each) + "\n" for each in records()))
    colors = torch.arange(GRAYS)[:, None].expand(-1, 3) * 15
    tensors = {"codec.color_bits": colors.float().view(torch.int32), "head.weight": torch.zeros(3, 4)}
    checkpoint.save_checkpoint(
        checkpoint.step_folder(run.checkpoints, 100), {"model": tensors}, {"state": {"step": 100}}
    )
    probe(run, found or evidence())
    for kind in ("sample", "complete") if recipe.objective.causal else ("reconstruct",):
        drawing(run, kind)
    return run


def probe(run: RunFolder, found: ProbeResult, name: str = "probe", **facts: Any) -> None:
    call = {key: facts.pop(key) for key in ("written", "command", "folder") if key in facts}
    replace(found, call={**CALL, **call}, **facts).saved(run.probes / f"{name}.json")


def drawing(run: RunFolder, verb: str, step: int = 100, data: str = "photos") -> Path:
    path = run.samples / f"{verb}-{step}.png"
    Image.new("RGBA", (64, 32)).save(path)
    call = {"verb": verb, "arguments": {}}
    measured = Measurement(data=data, split="test", images=8, available=8, images_hash="")
    common: dict[str, Any] = {"call": call, "measurement": measured, "step": step, "seed": 3}
    sampling = SamplingConfig(temperature=0.9)
    results = {
        "sample": lambda: SampleResult(**common, count=8, sampling=sampling),
        "complete": lambda: CompletionResult(
            **common,
            mask="rows:4",
            mask_hash="",
            hidden_fraction=(0.5,),
            each=2,
            passes=None,
            sampling=sampling,
            likelihood="raster",
            log_likelihood=((-9.0, -8.0),),
        ),
        "reconstruct": lambda: ReconstructionResult(**common, accuracy=0.25),
    }
    results[verb]().saved(path)
    return path


def words(text: str) -> str:
    """The text of a page, without its tags and style."""
    plain = re.sub(r"<style>.*?</style>|<[^>]*>", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", plain.replace("&nbsp;", " ").replace("\u00a0", " "))

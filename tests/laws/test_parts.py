"""Law of parts: another value of any setting of any registered part changes what is computed."""

import re
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isopix.codecs.palette_spec import PaletteSpec
from isopix.core import registry
from isopix.core.config import config, to_dict
from isopix.core.overrides import override, parse, resolve_setting
from isopix.objectives.prefix import Prefix
from isopix.probing import evaluators
from isopix.probing.evaluators import KNNAccuracy
from isopix.probing.methods import KnnProbe, RidgeProbe
from isopix.probing.probe import ProbeMethod, ProbeProblem
from isopix.recipes.recipe import Recipe
from isopix.train.evaluator import EvaluatorSpec, HeldOutLoss
from isopix.train.tasks import PretrainTask
from tests.golden.values import check_golden
from tests.laws import cases
from tests.unit.probing.cases import CPU, easy
from tests.unit.train.test_trainer import Run

# A part, what it is tested with, and another value of each of its settings, after "+" with what both need.
PIXELS = """
block.norm=rms_norm: epsilon=0.1
block.norm=layer_norm: epsilon=0.1
block.mlp=mlp: expansion=2 activation=gelu_tanh bias=true
block=transformer: norm=layer_norm heads=2 attention_bias=true qkv_bias=true dropout=0.5 attention_dropout=0.5
block=transformer: mlp.expansion=2 qk_norm_scale=0.12
positions=rotary block=transformer block.heads=2: base=10.0
block=axial objective=masked: norm=rms_norm heads=2 attention_bias=false mlp.expansion=2
block=convolution: norm=rms_norm
block=mixer: norm=rms_norm units=9 mlp.expansion=2
codec=palette: num_colors=9
stem=color_embedding: sigma=2.0 std=0.1
stem=fourier_pixel_embedding: sigma=2.0 frequencies=32
data.augment=pad_crop_flip: pad=3 flip=0.0
data.augment=scale_crop augment.min_side=9 augment.max_side=12 augment.crop=8: min_side=10 max_side=16 crop=9
data.augment=scale_crop augment.min_side=9 augment.max_side=12 augment.crop=8: flip=1.0
data.augment=inception_crop: min_area=0.5 max_ratio=2 flip=1.0
data.augment=rand_augment: base=pad_crop_flip operations=4 magnitude=1 deviation=5 erase=1.0
objective=masked: mask=block corruption=mask_token random_rate=0.5 keep_rate=0.5 deterministic_mask=true
objective=masked: label_smoothing=0.1 causal=true
objective.corruption=prefix objective=prefix corruption.head_width=8: head_depth=1 head_width=16
objective=denoising: max_noise=0.1
objective.mask=bernoulli objective=masked: ratio=0.3
objective.mask=per_channel objective=masked codec=bytes stem=linear_pixel_embedding: ratio=0.3
objective.mask=block objective=masked: ratio=0.3 side=1 exact_count=5
probe=lbfgs: l2_grid=[1.0]
probe=ridge: l2_grid=[1.0]
probe=knn: neighbors_grid=[3] temperature=1.0
probe=sgd probe.iterations=20: iterations=10 batch_size=8 momentum=0.5 lr_grid=[0.1]
probe=adam probe.epochs=3 probe.patience=1: lr=0.1 epochs=2 batch_size=8 tolerance=0.5
probe=adam probe.epochs=3 probe.tolerance=0.5: patience=1
probe=attentive probe.iterations=20: heads=2 iterations=10 batch_size=8 weight_decay=5.0 lr_grid=[0.1]
evaluator=knn: every=1 num_images=5 pool=grid2
evaluator=linear_probe evaluator.num_val=9: every=1 num_train=12 num_val=2 source=translated-digits pool=grid2
optimizer=adam: lr=0.1 beta1=0.5 beta2=0.5 epsilon=0.1
optimizer=adamw: lr=0.1 beta1=0.5 beta2=0.5 epsilon=0.1 weight_decay=9.0
optimizer=adam_weight_decay: lr=0.1 beta1=0.5 beta2=0.5 epsilon=0.1 weight_decay=9.0
optimizer=sgd: lr=0.1 momentum=0.5
optimizer=muon: lr=0.1 momentum=0.5 adam_lr=0.1 beta1=0.5 beta2=0.5
schedule=linear_end: warmup=0.9 end=1.0
schedule=warmup_cosine schedule.max_warmup_fraction=0.9: warmup_epochs=0.0 max_warmup_fraction=0.0
"""
PATCHES = """
codec=full_patch: patch_size=8
codec=mean_color: patch_size=8 bits=2
codec=downsampled_color: patch_size=8 side=2 bits=2
codec=gray_thumbnail codec.patch_size=8: patch_size=16 thumbnail=subsample+codec.patch_size=16 bits=1
stem=patch_embed: mean=[0.5,0.5,0.2] std=[0.5,0.5,0.2]
stem=conv_patch_embed codec.patch_size=8: mean=[0.5,0.5,0.2] std=[0.5,0.5,0.2] channels=16 last=2
stem=resnet stem.stages=[1,1] stem.channels=4: mean=[0.5,0.5,0.2] std=[0.5,0.5,0.2] stages=[2,1] channels=8
objective.corruption=drop: norm_positions=false
objective.corruption=decoder corruption.decoder_width=16 corruption.decoder_depth=1: decoder_depth=2
objective.corruption=decoder corruption.decoder_width=16 corruption.decoder_depth=1: decoder_width=32
objective.corruption=decoder corruption.decoder_width=16 corruption.decoder_depth=1: decoder_heads=2
head=regression codec=full_patch codec.patch_size=4: error=absolute normalize=true
head=upsampling head.channels=8 codec=downsampled_color: channels=4 norm=false
data.patch_augment=random: crop=0.5 strength=0.1 flip=1.0 min_bits=8 gray=1.0
"""
BASES = {  # of those lines
    PIXELS: "rows=8 cols=8",
    PATCHES: "rows=16 cols=16 codec=mean_color codec.patch_size=4 stem=patch_embed objective=masked"
    " objective.mask.ratio=0.5",
}
SMALL = "optimizer.lr=0.03 width=16 depth=1 steps=3 train.batch_size=8 evaluate_every=2 precision=fp32"
OTHERS = [
    pytest.param(f"{base} {SMALL} {given}", given.partition("=")[0], value, id=f"{given}: {value}")
    for lines, base in BASES.items()
    for given, values in (line.split(": ") for line in lines.strip().splitlines())
    for value in values.split()
]
# A file, of which unit tests are; what `Run` evaluates by, as `train.evaluate_images` says; and what has one
# kind.
NOT_COMPARED = {
    (PaletteSpec, "palette_file"),
    (HeldOutLoss, "every"),
    (HeldOutLoss, "num_images"),
    (Prefix, "corruption"),
}


@config
class Case:
    """All that has parts."""

    recipe: Recipe = cases.LAW.updated(codec=PaletteSpec(num_colors=8))
    evaluator: EvaluatorSpec = KNNAccuracy()
    probe: ProbeMethod = KnnProbe()


def case_of(words: str) -> Case:
    return override(Case(), parse(["data.source=noise.npz", *words.split()]))


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with random images of three classes."""
    folder = tmp_path_factory.mktemp("parts")
    images = np.random.default_rng(0).integers(0, 256, (60, 16, 16, 3), dtype=np.uint8)
    np.savez(folder / "noise.npz", x_train=images, y_train=np.arange(60) % 3)
    return folder


FOUND: dict[Case, Any] = {}


def outcome(case: Case) -> Any:
    """Return the log and the weights of a training with these parts, and what the probe predicts."""
    recipe, splits = case.recipe, easy()
    task = PretrainTask(cases.model(recipe), recipe.data.patch_augment)
    run = Run(recipe, evaluators=(case.evaluator,), task=task)
    probes = case.probe.fit_layers(ProbeProblem(splits, CPU, seed=0))
    timed = {"images_per_second", "seconds", "peak_memory_bytes"}
    records = [{name: each for name, each in record.items() if name not in timed} for record in run.records]
    weights = torch.cat([each.detach().flatten() for each in task.module.parameters()])
    return records, weights.tolist(), [each.predict_proba(splits.test.features).tolist() for each in probes]


def test_every_setting_of_a_part_has_another_value() -> None:
    registered = [each for noun in registry.nouns() for each in registry.kinds(noun).values()]
    parts = [each for each in registered if each.__module__.startswith("isopix.")]
    found = set(NOT_COMPARED)
    for words, path, value in (each.values for each in OTHERS):
        case = case_of(str(words))
        part = attrgetter(resolve_setting(to_dict(case), str(path)))(case)
        found.add((type(part), re.split(r"[.=]", str(value))[0]))
    assert found == {(each, field.name) for each in parts for field in fields(each)}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("words", "path", "value"), OTHERS)
def test_another_value_changes_what_is_computed(
    words: str,
    path: str,
    value: str,
    noise: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(noise)
    monkeypatch.setattr(evaluators, "METHOD", RidgeProbe())  # without iterations
    own, *both = value.split("+")
    base = case_of(" ".join([words, *both]))
    if base not in FOUND:
        FOUND[base] = outcome(base)
    found = outcome(override(base, parse([f"{path}.{own}"])))
    assert found != FOUND[base]
    check_golden("part_settings", request.node.callspec.id, found, FOUND[base])

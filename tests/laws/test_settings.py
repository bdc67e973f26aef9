"""Law of settings: another value of any setting of a recipe makes another run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isopix.core.config import to_dict
from isopix.core.overrides import flatten, override, parse
from isopix.finetuning.classifier import FineTuneConfig
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from tests.golden.values import check_golden
from tests.laws.test_stores import _logged
from tests.smoke.conftest import add_photos
from tests.trained import all_tensors, newest, train

BASE = "depth=2 width=8 steps=3 batch_size=8 log_every=1 evaluate_every=2 evaluate_images=4 num_test_images=4"
BASE += " rows=8 cols=8 num_colors=8 objective.mask.ratio=0.5 checkpoint_every=3 max_warmup_fraction=0.5"
BASE += " finetune.generative_weight=1 objective.random_rate=0.1"
# Another value of each setting, after "+" with what both runs need.
VALUES = """
model.stem=linear_pixel_embedding model.positions=sincos model.class_token=true
model.embedding_dropout=0.5 model.drop_path=0.5 model.block=axial model.block.norm=layer_norm
model.depth=1 model.width=16 model.tie_blocks=true model.embedding_conv=true model.init=keras
model.attention_rows=2+objective=autoregressive
objective=autoregressive objective.mask=block objective.corruption=mask_token
data.source=digits data.rows=12 data.cols=12 data.crop=random data.crop_fraction=0.5 data.resample=bicubic
data.holdout=0.3 data.train_on_validation=true+finetune.patience=null data.limit=12 data.labels_per_class=4
data.subset=1+data.labels_per_class=4 data.placements=1+data.source=translated-digits data.seed=1
data.augment=pad_crop_flip data.patch_augment=random
train.steps=4 train.batch_size=4 train.accumulate=2 train.optimizer=sgd train.schedule=constant
train.max_grad_norm=0.001 train.layer_decay=0.5 train.ema=0.1
train.precision=bf16 train.seed=1 train.log_every=2 train.evaluate_every=1 train.evaluate_images=2
train.num_test_images=2 train.knn_images=8 train.checkpoint_every=2 train.probe_every=2
finetune.generative_weight=0.5 finetune.layer=1 finetune.pool=grid4 finetune.residual_block=true
finetune.head_bias=true finetune.dropout=0.5 finetune.label_smoothing=0.1
finetune.mixup=1 finetune.cutmix=1 finetune.class_weights=balanced
finetune.patience=1+train.evaluate_every=1 finetune.mask_ratio=0.3 finetune.mask_at_eval=false
"""
OTHERS = VALUES.split()
# Names; files, how they are read, and parts that are tested elsewhere; how pixels are stored, and steps
# computed, to the same numbers; GPUs, time, several processes; training that fails; weights of another size.
NOT_COMPARED = {
    *("name", "finetune_overrides", "model.codec", "model.head"),
    *("model.block.mlp", "data.store", "data.workers", "train.compile", "train.parallel"),
    *("train.recompute", "train.checkpoint_minutes", "train.async_save", "train.on_nonfinite"),
    "train.patience",  # of pre-training
    *("train.evaluators", "finetune.interpolation", "data.splits", "data.max_pixels", "data.white"),
    *("data.label_column", "data.image_column", "data.labels_file", "data.exclude"),
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_photos(tmp_path_factory.mktemp("settings")) / "photos"


@pytest.fixture(scope="module")
def base(photos: Path) -> Recipe:
    found = replace(registry.find("igpt.digits_bert"), finetune=FineTuneConfig())
    return override(found, parse([f"data.source={photos}", *BASE.split()]))


def test_every_setting_has_another_value(base: Recipe) -> None:
    named = {each.partition("=")[0] for each in OTHERS}
    values = flatten(to_dict(base))
    parts = {path.removesuffix(".kind") for path in values if path.endswith(".kind")}
    known = parts | {path for path in values if path.rpartition(".")[0] not in parts}
    assert known <= named | NOT_COMPARED
    # Settings that the base has not, such as placements, are after what has them.
    assert NOT_COMPARED | {each.partition("=")[0] for each in OTHERS if "+" not in each} <= known


RUNS: dict[str, Any] = {}


def outcome(recipe: Recipe, out: Path) -> Any:
    train(recipe, out)
    steps = [each.name for each in sorted((out / "checkpoints").iterdir())]
    return steps, _logged(out), {name: each.tolist() for name, each in all_tensors(newest(out)).items()}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("words", OTHERS)
def test_another_value_makes_another_run(words: str, base: Recipe, tmp_path: Path) -> None:
    own, *both = words.split("+")
    common = override(base, parse(both))
    if words[len(own) :] not in RUNS:
        RUNS[words[len(own) :]] = outcome(common, tmp_path / "base")
    found, expected = outcome(override(common, parse([own])), tmp_path / "other"), RUNS[words[len(own) :]]
    assert found != expected
    check_golden("settings", words, found[:2], expected[:2])

"""The functions compute what the formulas say, by hand, with the seed and the precision that were given."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import isopix
from isopix.core.random import generator
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.model.pool import Pool
from isopix.pretrained.model import PretrainedModel
from isopix.probing.config import ProbeConfig
from isopix.probing.features import extract_features
from isopix.probing.linear import RidgeProbe
from isopix.probing.probe import fit_probe
from isopix.probing.splits import FeatureSplit, FeatureSplits
from isopix.runs.load import LoadedRun
from isopix.runs.state import State
from tests.laws import cases

CPU: dict[str, Any] = {"device": "cpu"}
SEEDS = (0, 1)


@pytest.fixture(scope="module")
def runs(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two runs, to write into."""
    return shutil.copytree(pristine, tmp_path_factory.mktemp("oracles") / "runs")


@pytest.fixture(scope="module")
def digits() -> ImageDataset:
    return load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=100))


def test_probe_is_the_fit_to_the_features_with_its_seed(runs: Path, digits: ImageDataset) -> None:
    network = isopix.load(runs / "ar", **CPU).network
    splits = FeatureSplits(
        *(
            FeatureSplit(extract_features(network, split.images), split.labels)
            for split in (digits.train, digits.validation, digits.test)
        )
    )
    by_seed = {
        seed: fit_probe(
            splits, RidgeProbe(), ProbeConfig(method="ridge", seed=seed), device=torch.device("cpu")
        )
        for seed in SEEDS
    }
    shuffled = []
    for seed, expected in by_seed.items():
        found = isopix.probe(runs / "ar", data=digits, method="ridge", seed=seed, **CPU)
        assert found.network == expected
        shuffled.append(found.baselines["shuffled labels"].best.test_accuracy)
    assert len(set(shuffled)) == len(SEEDS)


def test_verify_is_the_mean_of_minus_ln_p_of_the_codes_masked_by_its_seed(
    runs: Path, digits: ImageDataset
) -> None:
    model = isopix.load(runs / "bert", **CPU).loaded.model
    losses = []
    for seed in SEEDS:
        batch = model.make_batch(digits.test.balanced_sample(16).images, generator(seed, "evaluation", 0))
        with torch.no_grad():
            log_p = model.network(batch.inputs, batch.mask).log_softmax(-1)
        of_codes = -log_p.gather(-1, batch.targets[..., None])[..., 0].double() * batch.loss_mask
        losses.append((of_codes.sum((1, 2)) / batch.loss_mask.sum((1, 2))).mean().item())
        found = isopix.verify(runs / "bert", data=digits, limit=16, seed=seed, **CPU)
        assert found.loss_nats == pytest.approx(losses[-1], rel=1e-6)
    assert losses[0] != pytest.approx(losses[1], rel=1e-4)


def test_a_model_computes_in_its_precision(runs: Path, digits: ImageDataset) -> None:
    images = digits.test.images[:4]
    model = isopix.load(runs / "ar", precision="bf16", **CPU)
    network, plain = model.network, isopix.load(runs / "ar", **CPU)
    with torch.autocast("cpu", torch.bfloat16):
        *_, tokens = network.features(images)
    assert torch.equal(model(images), tokens.float().mean(1))
    *_, exact = network.features(images)
    assert torch.equal(plain(images), exact.mean(1))
    assert not torch.equal(model(images), plain(images))


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_a_class_token_is_not_pooled_with_the_positions(pool: Pool) -> None:
    recipe = next(each for each in cases.masked() if each.model.class_token)
    model = PretrainedModel(LoadedRun(recipe, cases.busy(recipe), State(step=0)), pool=pool)
    tokens = model.forward_features(cases.images(recipe))
    assert tokens.shape[1] == recipe.grid.positions + 1
    positions = tokens[:, 1:]
    expected = positions.mean(1) if pool == "mean" else positions.amax(1)
    torch.testing.assert_close(model.forward_head(tokens), expected)
    assert not torch.allclose(expected, tokens.mean(1) if pool == "mean" else tokens.amax(1))


def test_a_model_with_a_class_token_returns_it_as_its_features() -> None:
    recipe = next(each for each in cases.masked() if each.model.class_token)
    images = cases.images(recipe)
    model = PretrainedModel(LoadedRun(recipe, cases.busy(recipe), State(step=0)))
    token = model.forward_features(images)[:, 0].detach()
    assert torch.equal(model(images).detach(), token)
    assert torch.equal(model.features(images), token)
    assert np.array_equal(isopix.Features(model).fit_transform(images.numpy()), token.numpy())
    positions = model.features(images, pool="mean")
    assert np.array_equal(
        isopix.Features(model, pool="mean").fit_transform(images.numpy()), positions.numpy()
    )
    assert not torch.allclose(positions, token)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_a_plan_holds_one_part_of_a_batch_in_memory_and_trains_on_all_of_it(accumulate: int) -> None:
    words = ["steps=10", "batch_size=32", "depth=2", "width=16", f"accumulate={accumulate}"]
    found = isopix.plan("igpt.digits", *words, **CPU)
    chunk = 32 // accumulate
    assert found.step_bytes == found.weight_bytes + found.copy_bytes + chunk * found.activation_bytes
    assert found.weight_bytes == 16 * found.parameters  # weights, gradients and two moments in float32
    assert found.images == 10 * 32

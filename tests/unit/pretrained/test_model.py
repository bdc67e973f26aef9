"""PretrainedModel: its methods compute what functions of the package do, and it goes where a module goes."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import isopix
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.generate.complete import completion_steps
from isopix.model.positions import Pool
from isopix.pretrained.model import PretrainedModel
from isopix.probing.features import extract_features
from tests.laws import cases
from tests.unit.data.refusal import refusal
from tests.unit.pretrained.cases import CLASS_TOKEN, images, model


def test_logits_are_the_networks_under_a_mask_by_position_or_by_code(
    pretrained: PretrainedModel, masked: PretrainedModel
) -> None:
    x, network = images(pretrained), pretrained.network
    torch.testing.assert_close(pretrained.logits(x, batch_size=2), network(network.inputs_of(x)))
    hidden = torch.rand(3, 28, 1, generator=generator(0, "hidden")) < 0.5
    expected = masked.network(masked.network.inputs_of(x), hidden)
    for mask in (hidden, hidden[..., 0], hidden.numpy()):
        torch.testing.assert_close(masked.logits(x, mask=mask, batch_size=2), expected)
    assert not torch.allclose(expected, masked.logits(x))


def test_nll_is_the_loss_an_image_at_a_time(pretrained: PretrainedModel) -> None:
    x, trained = images(pretrained), pretrained.loaded.model
    found = pretrained.nll(x, batch_size=2)
    assert found.shape == (3,)
    torch.testing.assert_close(found.mean(), trained(trained.make_batch(x, generator(0, "nll"))).detach())


def test_a_regression_has_nats_and_reconstructions_and_no_logits() -> None:
    means = model(next(case for case in cases.masked() if case.model.head.kind == "regression"))
    x = images(means)
    assert means.nll(x).shape == (3,)
    assert means.reconstruct(x).prediction.shape == x.shape
    assert "a regression head, which predicts a mean for each code" in refusal(means.logits, x)


@pytest.mark.parametrize("kind", ["normed", "residual"])
@pytest.mark.parametrize("pool", ["mean", "last", "max", "first", "grid2", "flatten"])
def test_features_of_every_layer_are_those_of_the_probe(
    pretrained: PretrainedModel, kind: str, pool: Pool
) -> None:
    x = images(pretrained)
    every = extract_features(pretrained.network, x, features=kind, pool=pool)
    assert torch.equal(pretrained.layer_features(x, features=kind, pool=pool), every)
    assert torch.equal(pretrained.layer_features(x, [-1, 0], features=kind, pool=pool), every[[-1, 0]])
    for layer in (0, 1, -1):
        assert torch.equal(pretrained.features(x, layer, features=kind, pool=pool), every[layer])
        called = PretrainedModel(pretrained.loaded, layer=layer, pool=pool, features=kind)
        found = called(x)
        assert (found.shape, found.dtype) == ((3, called.num_features), torch.float32)
        torch.testing.assert_close(found.detach(), every[layer])
        assert torch.equal(called.features(x), every[layer])
        assert torch.equal(called.forward_head(called.forward_features(x)), found)


def test_intermediates_have_gradients_and_no_block_after_the_last_is_run(causal: PretrainedModel) -> None:
    x = images(causal)
    tokens = causal.forward_intermediates(x)
    assert len(tokens) == causal.depth + 1
    assert torch.equal(tokens[-1], causal.forward_features(x))
    tokens[1].sum().backward()
    assert causal.network.backbone.blocks[0].attention.qkv.weight.grad is not None
    assert causal.network.backbone.blocks[1].attention.qkv.weight.grad is None


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_a_class_token_is_the_features_and_is_not_pooled_with_the_positions(pool: Pool) -> None:
    own, x = model(CLASS_TOKEN), cases.images(CLASS_TOKEN)
    tokens = own.forward_features(x).detach()
    assert tokens.shape[1] == CLASS_TOKEN.grid.positions + 1
    assert torch.equal(own(x).detach(), tokens[:, 0])
    assert np.array_equal(isopix.Features(own).fit_transform(x.numpy()), tokens[:, 0].numpy())
    expected = tokens[:, 1:].mean(1) if pool == "mean" else tokens[:, 1:].amax(1)
    torch.testing.assert_close(own.features(x, pool=pool), expected)


def test_a_model_computes_in_its_precision(pristine: Path) -> None:
    model, plain = (isopix.load(pristine / "ar", precision=each, device="cpu") for each in ("bf16", "fp32"))
    x = images(model)
    with torch.autocast("cpu", torch.bfloat16):
        *_, tokens = model.network.features(x)
    assert torch.equal(model(x), tokens.float().mean(1))
    assert not torch.equal(model(x), plain(x))


def test_it_is_a_part_of_other_modules_with_gradients_until_it_is_frozen(causal: PretrainedModel) -> None:
    x, labels = images(causal), torch.tensor([0, 1, 2])
    classifier = nn.Sequential(causal, nn.Linear(causal.num_features, 10))
    assert not causal.training
    F.cross_entropy(classifier(x), labels).backward()
    assert causal.network.backbone.blocks[0].attention.qkv.weight.grad.any()
    causal.requires_grad_(False).zero_grad()
    F.cross_entropy(classifier(x), labels).backward()
    assert all(parameter.grad is None for parameter in causal.parameters())


def test_it_is_moved_copied_pickled_and_restored_as_any_module(causal: PretrainedModel) -> None:
    x = images(causal)
    expected = causal(x)
    for other in (causal.to("cpu"), copy.deepcopy(causal), pickle.loads(pickle.dumps(causal))):
        assert torch.equal(other(x), expected)
        assert torch.equal(other.sample(2), causal.sample(2))
    fresh = PretrainedModel(replace(causal.loaded, network=cases.network(causal.loaded.recipe)))
    assert not torch.equal(fresh(x), expected)
    fresh.load_state_dict(causal.state_dict())
    assert torch.equal(fresh(x), expected)


CALLS: dict[str, tuple[str, Callable[[PretrainedModel, Images], object]]] = {
    "probe": ("ar", lambda of, x: isopix.probe(of, limit=40, method="ridge")),
    "sample": ("ar", lambda of, x: of.sample(2)),
    "steps": ("bert", lambda of, x: list(completion_steps(of.loaded.model, of.prompt(x)))),
    "reconstruct": ("bert", isopix.reconstruct),
    "features": ("ar", lambda of, x: of.features(x)),
    "one that fails": ("ar", lambda of, x: refusal(isopix.reconstruct, of, x)),
}


@pytest.mark.parametrize(("name", "call"), CALLS.values(), ids=list(CALLS))
def test_a_model_is_in_evaluation_mode_while_it_is_used_and_in_its_own_afterwards(
    pristine: Path, name: str, call: Callable[[PretrainedModel, Images], object]
) -> None:
    own = isopix.load(pristine / name, device="cpu").train()
    own.network.backbone.stem.eval()
    expected = {key: module.training for key, module in own.named_modules()}
    seen: list[bool] = []
    for each in own.network.backbone.blocks:
        each.first_norm.register_forward_pre_hook(lambda norm, given: seen.append(norm.training))
    call(own, images(own))
    assert set(seen) <= {False}
    assert {key: module.training for key, module in own.named_modules()} == expected
    assert expected[""]


def test_saved_and_loaded_it_is_the_same_model(pretrained: PretrainedModel, tmp_path: Path) -> None:
    pretrained.save(tmp_path / "model")
    again, x = isopix.load(tmp_path / "model", device="cpu"), images(pretrained)
    assert torch.equal(again.logits(x), pretrained.logits(x))
    assert again.loaded.recipe == pretrained.loaded.recipe
    assert (again.loaded.step, again.loaded.state.data) == (7, "these")
    again.save(tmp_path / "again")
    names = ("model.safetensors", "recipe.json", "state.json")
    assert all((tmp_path / "model" / n).read_bytes() == (tmp_path / "again" / n).read_bytes() for n in names)
    other = isopix.load(tmp_path / "model", layer=1, pool="max", features="residual", device="cpu")
    expected = pretrained.features(x, 1, pool="max", features="residual")
    torch.testing.assert_close(other(x).detach(), expected)


@pytest.mark.parametrize("exists", [True, False])
def test_saving_to_a_link_writes_what_it_points_to(
    causal: PretrainedModel, tmp_path: Path, exists: bool
) -> None:
    disk, link = tmp_path / "disk", tmp_path / "link"
    link.symlink_to(disk)
    if exists:
        disk.mkdir()
    causal.save(link)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "link"]
    assert link.is_symlink()
    isopix.load(disk, device="cpu")


def hiding(of: PretrainedModel, x: Images) -> Tensor:
    return of.logits(x, mask=np.zeros((3, 28), bool))


REFUSED: dict[str, tuple[Callable[[PretrainedModel, Images], object], str]] = {
    "sample": (lambda of, x: of.reconstruct(x), "cannot reconstruct images; try isopix sample"),
    "order": (lambda of, x: of.complete(x, 2, order="random"), "only masked models have an order"),
    "mask": (hiding, "an autoregressive model takes no mask"),
    "batch size": (lambda of, x: of.nll(x, batch_size=0), "batch_size is 0; allowed: 1 or more"),
    "pool": (lambda of, x: of.features(x, 1, pool="x"), "pool is 'x'; it must be"),
    "layer": (lambda of, x: of.features(x, 3), "layer 3 does not exist; layers are 0 to 2"),
    "no image": (lambda of, x: of.complete(x[:0], 2), "expected at least 1 image, got 0"),
}


@pytest.mark.parametrize(("call", "line"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_be_done_is_refused_in_one_line(
    causal: PretrainedModel, unchecked: None, call: Callable[[PretrainedModel, Images], object], line: str
) -> None:
    assert line in refusal(call, causal, images(causal))


def test_a_masked_model_neither_samples_nor_omits_a_start_token_nor_takes_any_mask(
    masked: PretrainedModel, unchecked: None
) -> None:
    x, hidden = images(masked), np.zeros((3, 28), bool)
    assert "cannot sample images; try isopix complete" in refusal(masked.sample, 1)
    assert "only an autoregressive one has" in refusal(lambda: masked.features(x, 1, start_token=False))
    for wrong in (hidden[:2], np.stack([hidden, hidden], 2), hidden.astype(int)):
        assert "mask must be bool [3, 28]" in refusal(lambda given: masked.logits(x, mask=given), wrong)


@pytest.mark.parametrize("name", ["file", "folder"])
def test_saving_over_something_is_refused(causal: PretrainedModel, tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    target: dict[str, Any] = {"file": tmp_path / "mine.txt", "folder": tmp_path}
    assert "another --out" in refusal(causal.save, target[name])


def test_a_device_of_pytorch_is_taken_and_another_is_refused(pristine: Path) -> None:
    assert isopix.load(pristine / "ar", device=torch.device("cpu")).sample(1).shape == (1, 3, 8, 8)
    assert "'meta' is not available" in refusal(
        lambda: isopix.load(pristine / "ar", device=torch.device("meta"))
    )
    assert refusal(lambda: isopix.load(pristine / "ar", device=0)).startswith("device is 0; it must be")

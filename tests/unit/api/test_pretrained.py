"""PretrainedModel: its methods equal the functions they call, and take images in every form."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from einops import rearrange

import isopix
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.pretrained.model import PretrainedModel
from isopix.probing.features import extract_features
from isopix.runs.load import LoadedRun
from isopix.runs.state import State
from tests.laws import cases
from tests.unit.data.refusal import refusal

GPT = [case for case in cases.transformers() if case.data.cols == 7 and case.model.codec.kind == "palette"]
CAUSAL = [case for case in GPT if case.objective.causal][-1]
MASKED = [case for case in GPT if not case.objective.causal][-1]
STATE = State(step=7, data="these")


def model(recipe: cases.Recipe) -> PretrainedModel:
    return PretrainedModel(LoadedRun(recipe, cases.busy(recipe), STATE))


@pytest.fixture(params=[CAUSAL, MASKED], ids=["autoregressive", "masked"])
def pretrained(request: pytest.FixtureRequest) -> PretrainedModel:
    return model(request.param)


@pytest.fixture
def causal() -> PretrainedModel:
    return model(CAUSAL)


@pytest.fixture
def masked() -> PretrainedModel:
    return model(MASKED)


def images(of: PretrainedModel, count: int = 3) -> Images:
    """Pixels that the model's codes stand for, so that codes say as much as images."""
    codec = of.network.codec
    return codec.decode(codec.encode(cases.images(of.loaded.recipe, count)))


FORMS: dict[str, Callable[[PretrainedModel, Images], object]] = {
    "tensor [B 3 H W]": lambda of, x: x,
    "array [B 3 H W]": lambda of, x: x.numpy(),
    "array [B H W 3]": lambda of, x: rearrange(x, "b c h w -> b h w c").numpy(),
    "codes [B N Q]": lambda of, x: of.network.codec.encode(x),
    "codes [B N]": lambda of, x: of.network.codec.encode(x)[..., 0].numpy().astype(np.int16),
    "codes, big endian": lambda of, x: of.network.codec.encode(x).numpy().astype(">i8"),
    "codes, uint64": lambda of, x: of.network.codec.encode(x).to(torch.uint64),
}
VERBS: dict[str, Callable[[PretrainedModel, object], torch.Tensor]] = {
    "logits": lambda of, x: of.logits(x),
    "features": lambda of, x: of.features(x, 1),
    "nll": lambda of, x: of.nll(x),
    "complete": lambda of, x: of.complete(x, 2).images,
    "reconstruct": lambda of, x: of.reconstruct(x).prediction,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_images_in_every_form(verb: str, form: str, pretrained: PretrainedModel) -> None:
    if verb == ("reconstruct" if pretrained.loaded.recipe.objective.causal else "complete"):
        pytest.skip("not what this kind can do")
    x = images(pretrained)
    assert torch.equal(VERBS[verb](pretrained, FORMS[form](pretrained, x)), VERBS[verb](pretrained, x))


def test_logits_are_the_networks(pretrained: PretrainedModel) -> None:
    x = images(pretrained)
    torch.testing.assert_close(
        pretrained.logits(x, batch_size=2), pretrained.network(pretrained.network.inputs_of(x))
    )
    assert pretrained.logits(x).shape == (3, 28, 1, 32)


def test_logits_of_a_masked_model_hide_what_they_are_told_to(masked: PretrainedModel) -> None:
    x = images(masked)
    hidden = torch.rand(3, 28, 1, generator=generator(0, "hidden")) < 0.5
    expected = masked.network(masked.network.inputs_of(x), hidden)
    torch.testing.assert_close(masked.logits(x, mask=hidden, batch_size=2), expected)
    torch.testing.assert_close(masked.logits(x, mask=hidden[..., 0], batch_size=2), expected)
    assert not torch.allclose(expected, masked.logits(x))


def test_a_regression_has_nats_and_reconstructions_and_no_logits() -> None:
    means = next(case for case in cases.masked() if case.model.head.kind == "regression")
    model_of_means = model(means)
    x = images(model_of_means)
    assert model_of_means.nll(x).shape == (3,)
    assert model_of_means.reconstruct(x).prediction.shape == x.shape
    assert "a regression head, which predicts a mean for each code and no logits" in refusal(
        model_of_means.logits, x
    )


@pytest.mark.parametrize("kind", ["normed", "residual"])
def test_features_are_those_of_the_probe(pretrained: PretrainedModel, kind: str) -> None:
    x = images(pretrained)
    every = extract_features(pretrained.network, x, features=kind, pool="max")
    for layer in (0, 1, 2, -1):
        assert torch.equal(pretrained.features(x, layer, features=kind, pool="max"), every[layer])


def test_nll_is_the_loss_an_image_at_a_time(pretrained: PretrainedModel) -> None:
    x = images(pretrained)
    found = pretrained.nll(x, batch_size=2)
    trained = pretrained.loaded.model
    assert found.shape == (3,)
    expected = trained(trained.make_batch(x, generator(0, "nll"))).detach()
    torch.testing.assert_close(found.mean(), expected)
    assert torch.equal(found, pretrained.nll(x, batch_size=2))


def test_what_a_kind_cannot_do_says_what_it_can(causal: PretrainedModel, masked: PretrainedModel) -> None:
    with pytest.raises(ValueError, match="cannot sample images; try isopix complete"):
        masked.sample(1)
    with pytest.raises(ValueError, match="only masked models have an order and iterations"):
        causal.complete(images(causal), 2, order="random")
    with pytest.raises(ValueError, match="cannot reconstruct images; try isopix sample"):
        causal.reconstruct(images(causal))
    with pytest.raises(ValueError, match="an autoregressive model takes no mask"):
        causal.logits(images(causal), mask=torch.zeros(3, 28, dtype=torch.bool))
    with pytest.raises(ValueError, match="only an autoregressive one has"):
        masked.features(images(masked), 1, start_token=False)


@pytest.mark.parametrize("code", [-1, 32])
def test_codes_that_the_model_does_not_know_are_refused(causal: PretrainedModel, code: int) -> None:
    with pytest.raises(ValueError, match=rf"codes range from .*{code}.*; this model's are 0 to 31"):
        causal.nll(torch.full((1, 28), code))


MISTAKES: dict[str, tuple[Callable[[PretrainedModel, Images], object], str]] = {
    "no batch": (lambda of, x: of.nll(x, batch_size=0), "batch_size is 0; allowed: 1 or more"),
    "half a row": (lambda of, x: of.complete(x, 3.5), "rows is 3.5; it must be a valid integer"),
    "a wrong pool": (lambda of, x: of.features(x, 1, pool="x"), "pool is 'x'; it must be 'mean', 'last'"),
    "nothing to complete": (lambda of, x: of.complete(x[:0], 2), "expected at least 1 image, got 0"),
    "empty path": (
        lambda of, x: of.nll(""),
        "expected an array, a PIL image or a file for each image, got ''",
    ),
}


@pytest.mark.parametrize(("mistake", "line"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_one_line_that_says_what_is_taken(
    causal: PretrainedModel, unchecked: None, mistake: Callable[[PretrainedModel, Images], object], line: str
) -> None:
    assert line in refusal(mistake, causal, images(causal))


def test_what_hides_is_checked_too(masked: PretrainedModel, unchecked: None) -> None:
    x, hidden = images(masked), np.zeros((3, 28), bool)
    assert torch.equal(masked.logits(x, mask=hidden), masked.logits(x))
    assert torch.equal(masked.logits(x, mask=hidden[..., None]), masked.logits(x))
    for wrong in (hidden[:2], hidden[:, :5], np.stack([hidden, hidden], 2), hidden.astype(int)):
        assert "mask must be bool [3, 28]" in refusal(lambda given: masked.logits(x, mask=given), wrong)
    assert "expected at least 1 image, got 0" in refusal(masked.reconstruct, x[:0])


def test_a_layer_that_is_not_there_is_refused(causal: PretrainedModel) -> None:
    with pytest.raises(ValueError, match="layer 3 does not exist; layers are 0 to 2"):
        causal.features(images(causal), 3)


def test_saved_and_loaded_it_is_the_same_model(pretrained: PretrainedModel, tmp_path: Path) -> None:
    isopix.save(pretrained, tmp_path / "model")
    again = isopix.load(tmp_path / "model", device="cpu")
    x = images(pretrained)
    assert torch.equal(again.logits(x), pretrained.logits(x))
    assert again.loaded.recipe == pretrained.loaded.recipe
    assert (again.loaded.step, again.loaded.state.data) == (7, "these")
    isopix.save(again, tmp_path / "again")
    names = ("model.safetensors", "recipe.json", "state.json")
    assert all((tmp_path / "model" / n).read_bytes() == (tmp_path / "again" / n).read_bytes() for n in names)


def test_saving_over_something_is_refused(causal: PretrainedModel, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty; choose another folder"):
        isopix.save(causal, tmp_path)
    with pytest.raises(ValueError, match=r"mine.txt is a file; choose another folder"):
        isopix.save(causal, tmp_path / "mine.txt")


@pytest.mark.parametrize("exists", [True, False])
def test_saving_to_a_link_writes_what_it_points_to(
    causal: PretrainedModel, tmp_path: Path, exists: bool
) -> None:
    disk, link = tmp_path / "disk", tmp_path / "link"
    link.symlink_to(disk)
    if exists:
        disk.mkdir()
    isopix.save(causal, link)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "link"]
    assert link.is_symlink()
    isopix.load(disk, device="cpu")


def test_it_says_what_it_is(causal: PretrainedModel) -> None:
    assert "law, autoregressive, step=7, depth=2, width=16, grid=4x7, layer=2" in repr(causal)

"""Our iGPT against an implementation that is not ours: Hugging Face's ImageGPT, saved by it and read by us,
and written by us and loaded by it.
"""

import logging
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from speed import image_gpt
from torch import nn

from isopix.generate.results import SamplingConfig
from isopix.generate.sample import decode_steps, uniform_numbers
from isopix.interop.imagegpt import export_imagegpt, read_imagegpt
from isopix.model.network import Network, without_start_token
from isopix.objectives.base import PretrainModel
from isopix.objectives.objectives import Autoregressive
from isopix.probing.features import extract_features
from tests.unit.interop import models

transformers = pytest.importorskip("transformers", reason="the reference is in the extra bench")

# Their loaders leave files open to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SHAPES = {
    "one head": {"n_layer": 2, "n_embd": 16, "n_head": 1},
    "three heads": {"n_layer": 3, "n_embd": 24, "n_head": 3},
    "wide, exact GELU": {"n_layer": 1, "n_head": 4, "n_inner": 128, "activation_function": "gelu"},
    "narrow, other norm": {"n_layer": 2, "n_head": 2, "n_inner": 32, "layer_norm_epsilon": 1e-3},
}


class Pair(NamedTuple):
    """The same weights as their model and as our network, and the folder that their model was saved in."""

    theirs: nn.Module
    ours: Network
    folder: Path


def their_model(rows: int = 6, cols: int = 8, **settings: object) -> nn.Module:
    """Random weights, larger than they start with, so that every part matters; biases stay zero."""
    sizes = {"vocab_size": models.COLORS + 1, "n_positions": rows * cols, "n_embd": 32}
    theirs = transformers.ImageGPTForCausalImageModeling(transformers.ImageGPTConfig(**(sizes | settings)))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if not name.endswith(".bias"):
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.3)
    return theirs.eval()


def saved(theirs: nn.Module, folder: Path, rows: int = 6, cols: int = 8, **how: object) -> Path:
    """Their model and their image processor, as they save themselves."""
    theirs.save_pretrained(folder, **how)
    clusters = (models.palette().double() / 127.5 - 1).tolist()
    size = {"height": rows, "width": cols}
    transformers.ImageGPTImageProcessorPil(clusters=clusters, size=size).save_pretrained(folder)
    return folder


@pytest.fixture(params=SHAPES.values(), ids=list(SHAPES))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    theirs = their_model(**request.param)
    folder = saved(theirs, tmp_path / "theirs")
    return Pair(theirs, models.revived(read_imagegpt(folder)), folder)


def pixels(net: Network) -> torch.Tensor:
    return net.codec.decode(models.codes(net)[..., None])


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@torch.no_grad()
def test_logits_are_equal(pair: Pair, dtype: torch.dtype, within: float) -> None:
    net, theirs = pair.ours.to(dtype), pair.theirs.to(dtype)
    images = pixels(net)
    reference = theirs(input_ids=image_gpt.shift_right(net, images)).logits
    assert reference.abs().max() > 1
    ours = net.head.project(net.backbone(net.inputs_of(images)))
    torch.testing.assert_close(ours, reference, rtol=0, atol=within)


def their_features(theirs: nn.Module, ids: torch.Tensor) -> list[torch.Tensor]:
    """ln_1 of the block above each state; the last state is normed by ln_f already in what they return."""
    states = theirs.transformer(input_ids=ids, output_hidden_states=True).hidden_states
    below = zip(theirs.transformer.h, states[:-1], strict=True)
    return [*(block.ln_1(state) for block, state in below), states[-1]]


@torch.no_grad()
def test_features_are_their_hidden_states_behind_the_next_norm(pair: Pair) -> None:
    net, theirs = pair.ours.double(), pair.theirs.double()
    images = pixels(net)
    reference = their_features(theirs, image_gpt.shift_right(net, images))
    for own, other in zip(net.features(images), reference, strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-10)
    pooled = torch.stack([state.mean(1) for state in reference]).float()
    torch.testing.assert_close(extract_features(net, images), pooled, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_features_without_the_start_token_are_theirs_of_the_codes(pair: Pair) -> None:
    """What a user of their feature path gets: every pixel one place early."""
    net, theirs = pair.ours.double(), pair.theirs.double()
    images = pixels(net)
    naive = their_features(theirs, net.codec.encode(images)[..., 0])
    for one, other in zip(without_start_token(net).features(images), naive, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@torch.no_grad()
def test_greedy_samples_are_theirs_for_1024_steps(tmp_path: Path) -> None:
    theirs = their_model(32, 32, n_layer=2, n_head=2).double()
    net = models.revived(read_imagegpt(saved(theirs.float(), tmp_path / "a", 32, 32))).double()
    theirs.double()
    blank = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    model, uniform = PretrainModel(net, Autoregressive()), uniform_numbers(net, [(0, "golden", 0)] * 2)
    greedy = decode_steps(model, blank, start=0, sampling=SamplingConfig(top_k=1), uniform=uniform)
    own = torch.cat([stroke.codes[..., 0] for stroke in greedy], 1)
    last, past, drawn = torch.full((2, 1), models.COLORS), None, []
    for _ in range(1024):
        answer = theirs(input_ids=last, past_key_values=past, use_cache=True)
        last, past = answer.logits[:, -1:].argmax(-1), answer.past_key_values
        drawn.append(last)
    assert torch.equal(own, torch.cat(drawn, 1))
    assert len(own[0].unique()) > 3


def test_theirs_to_ours_to_theirs_is_the_identity(pair: Pair, tmp_path: Path) -> None:
    export_imagegpt(pair.ours).write(tmp_path / "ours", card="")
    again = transformers.ImageGPTForCausalImageModeling.from_pretrained(tmp_path / "ours")
    before, after = pair.theirs.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    same = ("n_layer", "n_embd", "n_head", "n_positions", "vocab_size", "activation_function")
    for name in (*same, "layer_norm_epsilon"):
        assert getattr(again.config, name) == getattr(pair.theirs.config, name)
    inner = [model.transformer.h[0].mlp.c_fc.weight.shape for model in (pair.theirs, again)]
    assert inner[0] == inner[1]


def test_what_we_write_loads_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = models.folder(tmp_path / "a")
    transformers.utils.logging.enable_propagation()
    try:
        with caplog.at_level(logging.WARNING):
            model = transformers.ImageGPTForCausalImageModeling.from_pretrained(source)
    finally:
        transformers.utils.logging.disable_propagation()
    assert [record.getMessage() for record in caplog.records] == []
    assert not any(module.p for module in model.modules() if isinstance(module, nn.Dropout))


def test_their_processor_finds_our_codes(tmp_path: Path) -> None:
    net = models.network()
    processor = transformers.AutoImageProcessor.from_pretrained(models.folder(tmp_path / "a", net))
    draw = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (50, 3, 8, 6), generator=draw, dtype=torch.uint8)
    images = torch.cat([noise, net.codec.decode(torch.arange(32).repeat(2)[:48].view(1, 48, 1))])
    theirs = processor(list(images), return_tensors="pt").input_ids
    assert torch.equal(theirs, net.codec.encode(images)[..., 0])

"""Settings of sampling: wrong values, where products are in bf16, and what is compiled."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from isopix.core.device import Precision
from isopix.generate import sampling_config
from isopix.generate.sample import sample_images
from isopix.generate.sampling_config import SamplingConfig
from tests.laws import cases


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"precision": "fp16"}, "precision is 'fp16'; allowed: fp32, bf16"),
        ({"precision": None}, "precision is None; allowed: fp32, bf16"),
        ({"compile": "yes"}, "compile is 'yes'; allowed: True, False, None"),
        ({"compile": 1}, "compile is 1; allowed: True, False, None"),
        ({"top_k": 2.5}, "top_k is 2.5; allowed: a whole number of at least 1, None"),
        ({"top_k": True}, "top_k is True; allowed: a whole number of at least 1, None"),
    ],
)
def test_wrong_values_are_refused_with_what_is_allowed(given: dict[str, Any], message: str) -> None:
    settings = object.__new__(SamplingConfig)  # past the tests' check of types
    for name, value in {**vars(SamplingConfig()), **given}.items():
        object.__setattr__(settings, name, value)
    with pytest.raises(ValueError, match=f"^{message}$"):
        settings.__post_init__()


def test_products_are_cast_to_bf16_on_gpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_config, "autocast", lambda device, precision: nullcontext(precision))
    devices = [torch.device("cpu"), torch.device("cuda")]
    for precision, expected in (("bf16", ["fp32", "bf16"]), ("fp32", ["fp32", "fp32"])):
        contexts = [SamplingConfig(precision=precision).autocast(each) for each in devices]
        assert [each.enter_result for each in contexts] == expected


@pytest.mark.parametrize(
    ("precision", "native", "device", "rounds"),
    [
        ("bf16", "bf16", "cpu", True),
        ("bf16", "fp32", "cpu", False),
        ("fp32", "bf16", "cpu", False),
        ("bf16", "bf16", "cuda", False),
    ],
)
def test_matrices_are_rounded_once_on_cpus_with_instructions_for_bf16(
    monkeypatch: pytest.MonkeyPatch, precision: Precision, native: Precision, device: str, rounds: bool
) -> None:
    monkeypatch.setattr(sampling_config, "native_precision", lambda device: native)
    assert SamplingConfig(precision=precision).rounds_matrices_on(torch.device(device)) == rounds


@pytest.mark.parametrize(("chosen", "expected"), [(True, True), (False, False), (None, False)])
def test_the_step_is_compiled_on_a_cpu_if_asked_for(chosen: bool | None, expected: bool) -> None:
    assert SamplingConfig(compile=chosen).compiles_on(torch.device("cpu")) is expected


@pytest.mark.parametrize("kind", ["mixer", "convolution"])
def test_blocks_other_than_attention_are_not_compiled(kind: str) -> None:
    recipe = next(case for case in cases.autoregressive() if case.model.block.kind == kind)
    with pytest.raises(ValueError, match="only attention can be compiled"):
        sample_images(cases.model(recipe), 1, sampling=SamplingConfig(compile=True))


@pytest.mark.parametrize("temperature", [1e-6, 1e-38, 1e-50, 5e-324])
def test_the_lowest_temperatures_are_greedy(temperature: float) -> None:
    logits = torch.tensor([[[-50.0, 3.0, 40.0, 39.0]]])
    found = SamplingConfig(temperature=temperature).probabilities(logits)
    assert found.tolist() == [[[0.0, 0.0, 1.0, 0.0]]]

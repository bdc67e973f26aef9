"""Sampling and completions: both sides give the same greedy codes, and others are noticed."""

import pytest

from isopix.benchmarks import image_gpt, sampling
from isopix.benchmarks.benchmark import OWN
from isopix.benchmarks.numerics import NumericsError
from isopix.benchmarks.timing import Stopwatch
from isopix.generate.complete import Completions, Prompt
from tests.unit.benchmarks.tiny import CPU, measured, network, peer_of_other_weights, set_native

# Their generation leaves files open to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def test_sampling_is_measured_on_both_sides() -> None:
    pytest.importorskip("transformers", reason="the peer is in isopix[bench]")
    found = measured("sampling.batch-128")
    *sides, bound = found.times
    assert sides == [OWN, f"{image_gpt.library_name()} generate"]
    assert bound.startswith("its bytes at the measured rate of copies, ")
    assert found.checked == "greedy codes: 100.00% equal"


def test_a_peer_of_other_weights_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="the peer is in isopix[bench]")
    monkeypatch.setattr(image_gpt, "with_weights_of", peer_of_other_weights)
    with pytest.raises(NumericsError, match="greedy codes"):
        measured("sampling.batch-128")


def test_the_peer_generates_every_position() -> None:
    pytest.importorskip("transformers", reason="the peer is in isopix[bench]")
    ours = network()
    codes = sampling.generate(image_gpt.with_weights_of(ours).eval(), ours, 3, do_sample=True, top_k=0)
    assert codes.shape == (3, 64)
    assert codes.max() < 17


def test_completions_are_measured_on_both_sides() -> None:
    found = measured("completions.of-one-image")
    assert list(found.times) == [OWN, "3 independent completions"]
    assert found.checked == "greedy pixels: 100.00% equal"


def test_other_completions_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sampling.complete_images

    def wrong(model: object, prompt: Prompt, **settings: object) -> Completions:
        found = right(model, prompt, **settings)
        return found._replace(images=255 - found.images) if prompt.samples_per_image > 1 else found

    monkeypatch.setattr(sampling, "complete_images", wrong)
    with pytest.raises(NumericsError, match="greedy pixels"):
        measured("completions.of-one-image")


@pytest.mark.parametrize(("native", "bytes_each"), [("bf16", 2), ("fp32", 4)])
def test_the_bytes_of_sampling_are_keys_values_and_weights(
    monkeypatch: pytest.MonkeyPatch, native: str, bytes_each: int
) -> None:
    """By hand, for a network of two blocks of width 16 over 64 positions."""
    set_native(monkeypatch, native)
    network_, watch = network(), Stopwatch(CPU, repeats=1)
    size = sampling.SamplingSize(recipe="igpt.digits", batch=4)
    [(name, times)] = sampling.copy_bounds(network_, size, watch).items()
    weights = sum(each.numel() for each in network_.parameters()) * 4 * 64 / 4
    cached = sum(position * 2 * 2 * 16 * bytes_each for position in range(1, 65))
    rate = float(name.rpartition(", ")[2].removesuffix(" GB/s")) * 1e9
    assert times[""].median * rate == pytest.approx(weights + cached, rel=0.01)

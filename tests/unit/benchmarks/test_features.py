"""Features of all layers: both sides give the same, and others are noticed."""

import pytest

from isopix.benchmarks import image_gpt
from isopix.benchmarks.numerics import NumericsError
from tests.unit.benchmarks.tiny import measured, peer_of_other_weights, set_native

pytest.importorskip("transformers", reason="the peer is in isopix[bench]")
NAME = "features.all-layers"


@pytest.mark.parametrize(("native", "precisions"), [("bf16", {"fp32", "bf16"}), ("fp32", {"fp32"})])
def test_every_precision_and_batch_size_is_measured(
    monkeypatch: pytest.MonkeyPatch, native: str, precisions: set[str]
) -> None:
    set_native(monkeypatch, native)
    own, peer = measured(NAME, peer_batches=(2, 4)).times.values()
    assert set(own) == precisions
    assert set(peer) == {f"{each}, batch {batch}" for each in own for batch in (2, 4)}


def test_a_peer_of_other_weights_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_gpt, "with_weights_of", peer_of_other_weights)
    with pytest.raises(NumericsError, match="features differ"):
        measured(NAME)

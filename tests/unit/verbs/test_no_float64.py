"""Apple's MPS devices have no float64: everything that reads a model works on a device without it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import isopix
from tests.fake_mps import MPS, FakeMPS
from tests.tiny_runs import Copy

CALLS: dict[str, Callable[[Path], Any]] = {
    "score": lambda run: isopix.score(run, limit=20, device="mps"),
    "score against": lambda run: isopix.score(run, limit=20, against="digits", device="mps"),
    "probe": lambda run: isopix.probe(run, limit=20, layer=1, device="mps"),
    "probe ridge": lambda run: isopix.probe(run, limit=40, method="ridge", device="mps"),
    "probe knn": lambda run: isopix.probe(run, limit=40, method="knn", device="mps"),
    "probe sgd": lambda run: isopix.probe(run, "iterations=4", limit=40, method="sgd", device="mps"),
    "probe adam": lambda run: isopix.probe(
        run, "batch_size=8", "epochs=1", limit=40, method="adam", device="mps"
    ),
    "low-data": lambda run: isopix.low_data(run, labels=[2], subsets=1, limit=60, device="mps"),
    "neighbors": lambda run: isopix.neighbors(run, limit=20, device="mps"),
    "sample": lambda run: isopix.sample(run, count=2, device="mps"),
    "complete": lambda run: isopix.complete(run, count=2, device="mps"),
    "reconstruct": lambda run: isopix.reconstruct(run, count=2, device="mps"),
    "verify": lambda run: isopix.verify(run, device="mps"),
    "finetune": lambda run: isopix.finetune(run, "steps=2", out=run.parent / "tuned", device="mps"),
    "analyze": lambda run: isopix.analyze(run, limit=4, device="mps"),
}


@pytest.fixture
def mps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device `mps` without float64."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: None)
    monkeypatch.setattr(torch.mps, "empty_cache", lambda: None)
    with FakeMPS():
        yield


def test_a_model_computes_on_the_device(copy_of: Copy, mps: None, unchecked: None) -> None:
    model = isopix.load(copy_of("ar", "run"), device="mps")
    features = model(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    assert model.network.device == features.device == MPS


QUICK = {"score", "probe ridge", "sample", "complete", "reconstruct", "finetune"}


def cases() -> Iterator[Any]:
    """Every call of both runs; those that take seconds are slow."""
    for name in CALLS:
        for run in ("ar", "bert"):
            if (name, run) not in {("sample", "bert"), ("reconstruct", "ar")}:
                yield pytest.param(name, run, marks=[] if name in QUICK else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "run"), list(cases()))
def test_no_command_takes_float64_on_the_device(
    name: str, run: str, copy_of: Copy, mps: None, unchecked: None
) -> None:
    CALLS[name](copy_of(run, "run"))

"""Apple's MPS devices have no float64: everything that reads a model works on a device without it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

import isopix
from tests.tiny_runs import Copy

MPS, CPU = torch.device("mps"), torch.device("cpu")
LEAVING = {"cpu", "tolist", "item", "numpy"}


class FakeMPS(TorchFunctionMode):
    """Runs what `mps` is given on the CPU, and raises TypeError for float64 there, as PyTorch does.

    Tensors on the device are marked. What is computed from one is on the device, too, until it is moved away.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function == Tensor.device.__get__:  # type: ignore[attr-defined]
            return MPS if is_on_device(args[0]) else CPU
        name, options = getattr(function, "__name__", ""), dict(kwargs or {})
        if function is torch.device or name == "_parse_to":  # what a module is moved to
            return function(*args, **options)
        asked = _asked(name, args, options)
        there = any(map(is_on_device, _tensors([args, options]))) if asked is None else asked.type == "mps"
        if name == "numpy" and there:
            raise TypeError("can't convert mps:0 device type tensor to numpy")
        words = {key: _here(each) for key, each in options.items()}
        result = function(*(_here(each) for each in args), **words)
        if name in ("to", "cpu") and result is args[0] and is_on_device(result) != there:
            result = result.view_as(result)  # what is moved is another tensor
        if name == "__set__" and there:  # the data of a parameter
            _mark(args[0])
        elif there and name not in LEAVING:
            for each in _tensors([result]):
                _mark(each)
        return result


def is_on_device(tensor: Tensor) -> bool:
    return "_on_fake_mps" in vars(tensor)


def _mark(tensor: Tensor) -> None:
    if tensor.dtype == torch.float64:
        raise TypeError("the MPS framework doesn't support float64; use float32")
    vars(tensor)["_on_fake_mps"] = True


def _asked(name: str, args: Sequence[Any], options: Mapping[str, Any]) -> torch.device | None:
    """The device that a call names, or None."""
    if name == "cpu":
        return CPU
    given = [options.get("device"), *(args[1:] if name == "to" else ())]
    for each in given:
        if isinstance(each, Tensor):
            return MPS if is_on_device(each) else CPU
        if isinstance(each, str | torch.device):
            return torch.device(each)
    return None


def _here(value: Any) -> Any:
    """The value with the CPU for the device."""
    if isinstance(value, str | torch.device) and str(value).startswith("mps"):
        return CPU
    return value


def _tensors(values: object) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, Mapping):
        yield from _tensors(list(values.values()))
    elif isinstance(values, list | tuple):
        for each in values:
            yield from _tensors(each)


CALLS: dict[str, Callable[[Path], Any]] = {
    "score": lambda run: isopix.score(run, limit=20, device="mps"),
    "probe": lambda run: isopix.probe(run, limit=20, layer=1, device="mps"),
    "probe ridge": lambda run: isopix.probe(run, limit=40, method="ridge", device="mps"),
    "probe knn": lambda run: isopix.probe(run, limit=40, method="knn", device="mps"),
    "probe sgd": lambda run: isopix.probe(run, "iterations=4", limit=40, method="sgd", device="mps"),
    "probe adam": lambda run: isopix.probe(
        run, "batch_size=8", "epochs=1", limit=40, method="adam", device="mps"
    ),
    "few labels": lambda run: isopix.probe(run, labels=[2], subsets=1, limit=60, device="mps"),
    "neighbors": lambda run: isopix.neighbors(run, limit=20, device="mps"),
    "sample": lambda run: isopix.sample(run, count=2, device="mps"),
    "complete": lambda run: isopix.complete(run, count=2, device="mps"),
    "reconstruct": lambda run: isopix.reconstruct(run, count=2, device="mps"),
    "evaluate": lambda run: isopix.evaluate(run, device="mps"),
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

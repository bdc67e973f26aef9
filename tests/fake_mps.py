"""A device without float64 on any machine: the CPU under the name `mps`, whose tensors may not be float64."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

MPS, CPU = torch.device("mps"), torch.device("cpu")
LEAVING = {"cpu", "tolist", "item", "numpy"}


class FakeMPS(TorchFunctionMode):
    """Runs what is asked of `mps` on the CPU, and raises TypeError for float64 there, as PyTorch does.

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
    """Return whether a tensor is on the device."""
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

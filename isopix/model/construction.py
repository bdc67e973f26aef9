"""Making the modules of a network: reproducibly, and without memory for weights that are then loaded."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode


class _NanFilled(TorchFunctionMode):
    """Fills the memory that `torch.empty` returns, so that a parameter left as it was is found."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in (torch.empty, torch.empty_like) and made.is_floating_point():
            made.fill_(torch.nan)
        return made


@contextmanager
def seeded_construction(seed: int) -> Iterator[None]:
    """Make what modules draw as they are made a function of `seed`, and uninitialized memory nan."""
    with torch.random.fork_rng(devices=[]), _NanFilled():
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Put the parameters of the modules that this thread makes on the meta device, where they take no memory.

    Buffers and other tensors have their values: a checkpoint does not hold all of them.
    """
    thread = threading.get_ident()

    def move(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or parameter.is_meta or threading.get_ident() != thread:
            return None  # keeps the parameter as it is
        return nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)

    hook = register_module_parameter_registration_hook(move)  # type: ignore[arg-type]  # as torch documents
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def limited_parameters(limit: int) -> Iterator[None]:
    """Raise ValueError as soon as the modules that this thread makes have more than `limit` parameters."""
    thread, count = threading.get_ident(), 0

    def add(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal count
        if parameter is not None and threading.get_ident() == thread:
            count += parameter.numel()
            if count > limit:
                raise ValueError(f"the network has more than {limit:,} parameters, far more than its weights")

    hook = register_module_parameter_registration_hook(add)
    try:
        yield
    finally:
        hook.remove()


def unsaved_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a module that its `state_dict` does not hold, by name: buffers that are not
    persistent, and attributes, also inside lists, tuples and dicts.
    """
    saved = {id(tensor) for tensor in module.state_dict(keep_vars=True).values()}
    found = dict[str, Tensor]()
    for prefix, part in module.named_modules():
        attributes = {name: each for name, each in vars(part).items() if name not in _OWN}
        found |= _tensors({**part._buffers, **attributes}, prefix)
    return {name: tensor for name, tensor in found.items() if id(tensor) not in saved}


_OWN = ("_parameters", "_buffers", "_modules")  # where modules keep what they register


def _tensors(value: object, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _tensors(each, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for place, each in enumerate(value):
            yield from _tensors(each, f"{name}.{place}")

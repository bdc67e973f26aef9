"""What an optimizer may find in its saved state: the names, shapes and types of the moments of parameters."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from isopix.train.optim import OptimizerSpec
from isopix.train.train_step import NO_STATE, NUMBER

SIDES = (2, 3, 5, 7, 11, 13)  # of a small parameter; all different, so that they show which one a moment has


class Moment(NamedTuple):
    """The shape of a moment of a small parameter, and its type."""

    shape: torch.Size
    dtype: torch.dtype


def check_optimizer_state(
    spec: OptimizerSpec, parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> None:
    """Raise ValueError for the first tensor that this optimizer could not have saved of these parameters.

    The names, shapes and types of moments are those that the optimizer has after a step of small parameters
    with as many dimensions; fused optimizers read and write beyond a tensor of another shape. Of an optimizer
    that makes no such step, and of moments that it gets later, each is a scalar or has the shape of its
    parameter, where a side may be 1. `parameters` may be on the meta device.
    """
    expected = _moments_by_dimension(spec, {parameter.ndim for parameter in parameters.values()})
    found: dict[str, set[str]] = {}
    for path, tensor in tensors.items():
        name, _, moment = path.rpartition("/")
        if name not in parameters:
            raise ValueError(f"tensor '{path}' belongs to no parameter of this model")
        found.setdefault(name, set()).add(moment)
        if moment != NO_STATE:
            known = expected.get(parameters[name].ndim, {}).get(moment)
            _check_moment(path, tensor, parameters[name], known)
    for name, moments in found.items():
        missing = sorted(expected.get(parameters[name].ndim, {}).keys() - moments)
        if missing and moments != {NO_STATE}:
            raise ValueError(f"tensor '{name}/{missing[0]}' is missing")


def _check_moment(path: str, tensor: Tensor, parameter: Tensor, expected: Moment | None) -> None:
    """Raise ValueError for a moment of a wrong shape or type."""
    shape, size = tensor.shape, parameter.shape
    if expected is not None:
        allowed = _scaled(expected.shape, size)
        if not (_broadcasts(shape, size) if allowed is None else shape == allowed):
            known = tuple(size if allowed is None else allowed)
            raise ValueError(f"tensor '{path}' has shape {tuple(shape)}; allowed: {known}")
        if tensor.dtype != expected.dtype and not path.endswith(NUMBER):
            raise ValueError(f"tensor '{path}' has type {tensor.dtype}; allowed: {expected.dtype}")
    elif shape and not _broadcasts(shape, size):
        raise ValueError(f"tensor '{path}' has shape {tuple(shape)}; allowed: {tuple(size)} or a scalar")


def _scaled(small: torch.Size, size: torch.Size) -> torch.Size | None:
    """Return the shape of a parameter of `size` in which `small` is of one with the sides `SIDES`; None for a
    side that is neither of it nor 1.
    """
    sides = {side: size[place] for place, side in enumerate(SIDES[: len(size)])} | {1: 1}
    return torch.Size(sides[each] for each in small) if all(each in sides for each in small) else None


def _broadcasts(shape: torch.Size, size: torch.Size) -> bool:
    return len(shape) == len(size) and all(own in (1, side) for own, side in zip(shape, size, strict=True))


def _moments_by_dimension(spec: OptimizerSpec, dimensions: Iterable[int]) -> dict[int, dict[str, Moment]]:
    """Return the moments by name that the optimizer has after its first step, by a parameter's dimensions."""
    small = [nn.Parameter(torch.zeros(SIDES[:number])) for number in sorted(dimensions)]
    try:
        with torch.random.fork_rng(devices=[]):
            optimizer = spec.build(small)
            for parameter in small:
                parameter.grad = torch.zeros_like(parameter)
            optimizer.step()
    except Exception:  # of any optimizer; what is not known is checked less strictly
        return {}
    return {each.ndim: dict(_moments(optimizer.state.get(each, {}))) for each in small}


def _moments(state: Mapping[str, object]) -> Iterable[tuple[str, Moment]]:
    for name, value in state.items():
        if isinstance(value, Tensor):
            yield name, Moment(value.shape, value.dtype)
        elif isinstance(value, bool | int | float):
            yield f"{name}{NUMBER}", Moment(torch.Size(), torch.float64)

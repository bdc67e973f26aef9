"""What an optimizer may find in its saved state: the names, shapes and types of the moments of parameters."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from isopix.train.optim import OptimizerSpec
from isopix.train.train_step import NO_STATE, NUMBER

SIDES = (2, 3, 5, 7, 11, 13)  # of a small parameter; all different, so that they show which one a moment has


class Moment(NamedTuple):
    """The shape of a moment, None for any that broadcasts to that of the parameter, and its type."""

    shape: torch.Size | None
    dtype: torch.dtype


def check_optimizer_state(
    spec: OptimizerSpec, parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> None:
    """Raise ValueError for the first tensor that this optimizer could not have saved of these parameters.

    The names, shapes and types of moments are those that the optimizer has after a step of small parameters
    with as many dimensions, or of one parameter of this size, as the moments of some depend on it; fused
    optimizers read and write beyond a tensor of another shape. Of an optimizer that makes no such step, and
    of moments that it gets later, each is a scalar or has the shape of its parameter, where a side may be 1.
    `parameters` may be on the meta device.
    """
    dimensions = sorted({parameter.ndim for parameter in parameters.values()})
    small = dict(zip(dimensions, _first_moments(spec, [SIDES[:each] for each in dimensions]), strict=False))
    found: dict[str, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        name, _, moment = path.rpartition("/")
        if name not in parameters:
            raise ValueError(f"tensor '{path}' belongs to no parameter of this model")
        found.setdefault(name, {})[moment] = tensor
    for name, moments in found.items():
        size = parameters[name].shape
        expected = {moment: _scaled(each, size) for moment, each in small.get(len(size), {}).items()}
        try:
            _check_moments(name, moments, size, expected)
        except ValueError:
            own = _first_moments(spec, [size])
            if not own:
                raise
            _check_moments(name, moments, size, own[0])


def _check_moments(
    name: str, moments: Mapping[str, Tensor], size: torch.Size, expected: Mapping[str, Moment]
) -> None:
    """Raise ValueError for a moment of a wrong shape or type, and for a missing one."""
    if moments.keys() == {NO_STATE}:
        return
    for moment, tensor in moments.items():
        if moment != NO_STATE:
            _check_moment(f"{name}/{moment}", tensor, size, expected.get(moment))
    missing = sorted(expected.keys() - moments.keys())
    if missing:
        raise ValueError(f"tensor '{name}/{missing[0]}' is missing")


def _check_moment(path: str, tensor: Tensor, size: torch.Size, expected: Moment | None) -> None:
    """Raise ValueError for a moment of a wrong shape or type."""
    shape = tensor.shape
    if expected is not None:
        if not (_broadcasts(shape, size) if expected.shape is None else shape == expected.shape):
            known = tuple(size if expected.shape is None else expected.shape)
            raise ValueError(f"tensor '{path}' has shape {tuple(shape)}; allowed: {known}")
        if tensor.dtype != expected.dtype and not path.endswith(NUMBER):
            raise ValueError(f"tensor '{path}' has type {tensor.dtype}; allowed: {expected.dtype}")
    elif shape and not _broadcasts(shape, size):
        raise ValueError(f"tensor '{path}' has shape {tuple(shape)}; allowed: {tuple(size)} or a scalar")


def _scaled(small: Moment, size: torch.Size) -> Moment:
    """Return a moment of a parameter with the sides `SIDES` with the shape that it has of one of `size`; None
    for a side that is neither of the parameter nor 1.
    """
    sides = {side: size[place] for place, side in enumerate(SIDES[: len(size)])} | {1: 1}
    shape = small.shape or torch.Size()
    known = all(each in sides for each in shape)
    return small._replace(shape=torch.Size(sides[each] for each in shape) if known else None)


def _broadcasts(shape: torch.Size, size: torch.Size) -> bool:
    return len(shape) == len(size) and all(own in (1, side) for own, side in zip(shape, size, strict=True))


def _first_moments(spec: OptimizerSpec, shapes: Iterable[Iterable[int]]) -> list[dict[str, Moment]]:
    """Return the moments by name that the optimizer has after its first step, of parameters of these shapes;
    empty if it makes none.
    """
    parameters = [nn.Parameter(torch.zeros(tuple(shape))) for shape in shapes]
    try:
        with torch.random.fork_rng(devices=[]):
            optimizer = spec.build(parameters)
            for parameter in parameters:
                parameter.grad = torch.zeros_like(parameter)
            optimizer.step()
    except Exception:  # of any optimizer; what is not known is checked less strictly
        return []
    return [dict(_moments(optimizer.state.get(each, {}))) for each in parameters]


def _moments(state: Mapping[str, object]) -> Iterable[tuple[str, Moment]]:
    for name, value in state.items():
        if isinstance(value, Tensor):
            yield name, Moment(value.shape, value.dtype)
        elif isinstance(value, bool | int | float):
            yield f"{name}{NUMBER}", Moment(torch.Size(), torch.float64)

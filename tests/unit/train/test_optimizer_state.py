"""What each optimizer of torch saves is accepted; anything else of its moments is refused."""

import pytest
import torch
from torch import nn

from isopix.train.optim import SGD, Adam, AdamW, OptimizerSpec
from isopix.train.optimizer_state import check_optimizer_state
from isopix.train.train_step import NO_STATE, NUMBER

SHAPES = {"a": (4, 6), "b": (6,), "c": (2, 3, 3, 5), "d": ()}


class _Of(OptimizerSpec):
    """Any optimizer of torch; not registered."""

    make: type[torch.optim.Optimizer] = torch.optim.Adafactor
    lr: float = 0.01

    def build(self, parameters):
        return self.make(parameters, lr=self.lr)


def saved(spec: OptimizerSpec, steps: int = 2) -> tuple[dict[str, nn.Parameter], dict[str, torch.Tensor]]:
    """The parameters, and the state that the optimizer has after some steps, as a checkpoint holds it."""
    parameters = {name: nn.Parameter(torch.ones(shape)) for name, shape in SHAPES.items()}
    optimizer = spec.build(list(parameters.values()))
    for _ in range(steps):
        for parameter in parameters.values():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    tensors = {}
    for name, parameter in parameters.items():
        for moment, value in optimizer.state[parameter].items():
            if isinstance(value, torch.Tensor):
                tensors[f"{name}/{moment}"] = value
            else:
                tensors[f"{name}/{moment}{NUMBER}"] = torch.tensor(value)
    return parameters, tensors


OPTIMIZERS = [
    torch.optim.Adafactor,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.ASGD,
]
OPTIMIZERS += [torch.optim.Rprop, torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.Adamax]


@pytest.mark.parametrize("spec", [Adam(), AdamW(), SGD(), *(_Of(make=each) for each in OPTIMIZERS)], ids=str)
def test_what_an_optimizer_saves_is_accepted(spec: OptimizerSpec) -> None:
    parameters, tensors = saved(spec)
    assert tensors
    check_optimizer_state(spec, parameters, tensors)
    check_optimizer_state(spec, {name: each.to("meta") for name, each in parameters.items()}, tensors)
    check_optimizer_state(spec, parameters, {})  # before the first step
    none = {name: each for name, each in tensors.items() if not name.startswith("a/")}
    check_optimizer_state(spec, parameters, {**none, f"a/{NO_STATE}": torch.empty(0)})


class _BySize(torch.optim.Optimizer):
    """Keeps a row and a column of moments of large parameters alone, and those in 8 bits with a scale per
    block, as Adafactor with a smallest size and Adam in 8 bits do.
    """

    def __init__(self, parameters, lr: float):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.param_groups[0]["params"]:
            state, size = self.state[parameter], parameter.numel()
            if size < 20:
                state["square"] = torch.zeros_like(parameter)
                state["moment"] = torch.zeros_like(parameter)
            else:
                state["row"] = torch.zeros(parameter.shape[0])
                state["moment"] = torch.zeros(parameter.shape, dtype=torch.uint8)
                state["scale"] = torch.zeros(-(-size // 8))


def test_moments_that_depend_on_the_size_of_the_parameter_are_accepted() -> None:
    spec = _Of(make=_BySize)
    parameters, tensors = saved(spec)
    assert {"a/row", "a/scale", "b/square"} <= tensors.keys()
    check_optimizer_state(spec, {name: each.to("meta") for name, each in parameters.items()}, tensors)
    for wrong in (torch.zeros(4), torch.zeros(3, dtype=torch.float64)):
        with pytest.raises(ValueError, match="'a/scale' has "):
            check_optimizer_state(spec, parameters, {**tensors, "a/scale": wrong})
    with pytest.raises(ValueError, match="'a/row' is missing"):
        check_optimizer_state(spec, parameters, {k: v for k, v in tensors.items() if k != "a/row"})


WRONG = [
    ("a/exp_avg", torch.zeros(4), r"'a/exp_avg' has shape \(4,\); allowed: \(4, 6\)"),
    ("a/exp_avg", torch.zeros(1, 6), r"has shape \(1, 6\)"),
    ("a/exp_avg_sq", torch.zeros(8, 6), r"has shape \(8, 6\)"),
    ("a/exp_avg_sq", torch.tensor(0.0), r"has shape \(\)"),
    ("b/exp_avg", torch.zeros(6, dtype=torch.float64), "has type torch.float64; allowed: torch.float32"),
    ("a/step", torch.zeros(4, 6), r"'a/step' has shape \(4, 6\); allowed: \(\)"),
    ("e/exp_avg", torch.zeros(4), "'e/exp_avg' belongs to no parameter"),
    ("exp_avg", torch.zeros(4), "'exp_avg' belongs to no parameter"),
    ("a/other", torch.zeros(7), r"'a/other' has shape \(7,\)"),
]


@pytest.mark.parametrize(
    ("name", "tensor", "line"), WRONG, ids=[f"{each[0]}-{number}" for number, each in enumerate(WRONG)]
)
def test_another_tensor_is_refused(name: str, tensor: torch.Tensor, line: str) -> None:
    parameters, tensors = saved(Adam())
    with pytest.raises(ValueError, match=line):
        check_optimizer_state(Adam(), parameters, {**tensors, name: tensor})


def test_a_missing_moment_is_named() -> None:
    parameters, tensors = saved(Adam())
    del tensors["a/exp_avg"]
    with pytest.raises(ValueError, match="'a/exp_avg' is missing"):
        check_optimizer_state(Adam(), parameters, tensors)


def test_random_numbers_are_not_drawn() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    parameters, tensors = saved(Adam())
    check_optimizer_state(Adam(), parameters, tensors)
    assert torch.equal(torch.get_rng_state(), before)

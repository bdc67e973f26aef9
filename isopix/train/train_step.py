"""One training step: gradients summed over the chunks of a batch, and an update if they are finite."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from isopix.core.device import autocast, is_out_of_memory
from isopix.core.types import Scalar
from isopix.model.backbone import Backbone
from isopix.train.config import TrainConfig
from isopix.train.parallel import full, shard_like, strategy
from isopix.train.tasks import Batch, TrainingTask

LOSS = "the loss or its gradient"
AVERAGE = "average"  # of the weights, kept as a moment of the optimizer; in a checkpoint, the weights
NUMBER = ":number"  # ends the names of moments that are numbers and no tensors


class NonFiniteError(RuntimeError):
    """The loss, its gradient, a weight or a moment of the optimizer is inf or nan."""

    def __init__(self, step: int, what: str = LOSS, advice: str = ""):
        super().__init__(f"{what} is not finite at step {step}{advice}")
        self.step, self.what, self.advice = step, what, advice


class OutOfMemoryError(RuntimeError):
    """A batch in `accumulate` chunks does not fit in memory."""

    def __init__(self, step: int, accumulate: int, reason: str):
        first = reason.partition("\n")[0]
        super().__init__(f"out of memory at step {step} with accumulate={accumulate}: {first}")


class TrainStep:
    """A task and its optimizer; a step with a non-finite loss or gradient updates nothing, and, unless
    `on_nonfinite` is `skip`, no later one does.
    """

    def __init__(self, task: TrainingTask, config: TrainConfig):
        self.device = next(task.module.parameters()).device
        self.task, self.config, self.precision = task, config, config.precision_on(self.device)
        self.accumulate = config.accumulate  # doubled where memory is short
        self.parallel = strategy(task, config.parallel, self.precision)
        self.optimizer = config.optimizer.build(task.module.named_parameters())
        if config.layer_decay < 1:
            decay_by_layer(self.optimizer, task.module, config.layer_decay)
        self.group_lrs = [group["lr"] for group in self.optimizer.param_groups]
        self.losses: Callable[[Batch], Mapping[str, Scalar]] = task.losses
        if config.compiles_on(self.device):
            whole_graph = config.compile is True and config.parallel == "ddp"  # FSDP2 gathers in between
            self.losses = torch.compile(task.losses, dynamic=False, fullgraph=whole_graph)
        self.losses = self.parallel.prepare(self.losses)
        self.blocked = torch.tensor(False, device=self.device)  # whether no update is applied
        self.unchecked: list[tuple[int, Tensor]] = []  # each step, and whether it was not finite

    def __call__(self, batch: Batch, *, step: int, lr_factor: float) -> dict[str, Scalar]:
        """Update the weights at `lr_factor`; return the losses before it, the one that is minimized first."""
        try:
            totals = self._add_gradients(batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise OutOfMemoryError(step, self.accumulate, str(error)) from None
        parameters = list(self.task.module.parameters())
        norm = full(torch.nn.utils.get_total_norm(p.grad for p in parameters if p.grad is not None))
        if self.config.max_grad_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, self.config.max_grad_norm, norm)
        nonfinite = ~(torch.isfinite(next(iter(totals.values()))) & torch.isfinite(norm))
        self.unchecked.append((step, nonfinite))
        self.blocked = nonfinite if self.config.on_nonfinite == "skip" else self.blocked | nonfinite
        for group, lr in zip(self.optimizer.param_groups, self.group_lrs, strict=True):
            group["lr"] = lr * lr_factor
        self._update(step)
        return totals

    def _add_gradients(self, batch: Batch) -> dict[str, Scalar]:
        self.optimizer.zero_grad(set_to_none=True)
        totals: dict[str, Scalar] = {}
        for chunk, last in self.parallel.chunks(batch, self.accumulate):
            with self.parallel.synchronized(last):
                with autocast(self.device, self.precision):
                    losses = self.losses(chunk.to(self.device))
                self.parallel.backward(next(iter(losses.values())))
            for name, loss in losses.items():
                totals[name] = totals[name] + loss.detach() if name in totals else loss.detach()
        return self.parallel.total(totals)

    def _update(self, step: int) -> None:
        """Run the optimizer unless updates are blocked; a fused one decides that on the device."""
        fused = vars(self.optimizer).get("_step_supports_amp_scaling", False)  # as torch's GradScaler asks
        fused = fused and not self.parallel.shards_weights  # it takes no flag beside sharded tensors
        if fused:
            vars(self.optimizer).update(grad_scale=None, found_inf=self.blocked.float())
        if fused or not self.blocked:
            self.optimizer.step()
            if self.config.ema is not None:
                self._average(min(self.config.ema, (1 + step) / (10 + step)))

    @torch.no_grad()
    def _average(self, decay: float) -> None:
        trained: list[Tensor] = [each for each in self.task.module.parameters() if each.grad is not None]
        states = [self.optimizer.state[each] for each in trained]
        for parameter, state in zip(trained, states, strict=True):
            if AVERAGE not in state:
                state[AVERAGE] = parameter.clone()
        torch._foreach_lerp_([state[AVERAGE] for state in states], trained, 1 - decay)

    def swap_average(self) -> None:
        """Exchange the weights and their moving average, if there is one."""
        for parameter, state in self.optimizer.state.items():
            if AVERAGE in state:
                parameter.data, state[AVERAGE] = state[AVERAGE], parameter.data

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Use the moving average as weights, which is then in `state` in exchange."""
        self.swap_average()
        try:
            yield
        finally:
            self.swap_average()

    def nonfinite_steps(self) -> list[int]:
        """Return the steps since the last call whose loss or gradient is not finite; waits for the device."""
        if not self.unchecked:
            return []
        steps, flags = zip(*self.unchecked, strict=True)
        self.unchecked.clear()
        return [step for step, flag in zip(steps, torch.stack(flags).tolist(), strict=True) if flag]

    def nonfinite_state(self) -> str:
        """Return what is not finite, the weights or the moments of the optimizer; empty if both are."""
        weights = [each.detach() for each in self.task.module.parameters()]
        moments = [each for state in self.optimizer.state.values() for each in state.values()]
        for name, values in (("a weight", weights), ("a moment of the optimizer", moments)):
            tensors = [each for each in values if isinstance(each, Tensor) and each.is_floating_point()]
            if not math.isfinite(float(full(torch.nn.utils.get_total_norm(tensors, math.inf)))):
                return name
        return ""

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state by parameter: `<parameter>/<moment>`, sharded moments as they are."""
        return dict(
            _saved(f"{name}/{moment}", value)
            for name, parameter in self.task.module.named_parameters()
            for moment, value in self.optimizer.state.get(parameter, {}).items()
        )

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state` returned; ValueError for another shape, which a fused optimizer overruns."""
        self.blocked = torch.zeros_like(self.blocked)
        self.unchecked.clear()
        self.optimizer.state.clear()
        parameters = dict(self.task.module.named_parameters())
        fused = bool(self.optimizer.param_groups[0].get("fused"))
        for path, value in tensors.items():
            name, _, moment = path.rpartition("/")
            parameter = parameters[name]
            like = torch.tensor(0.0) if moment == "step" else parameter
            if fused and (value.shape, value.dtype) != (like.shape, like.dtype):
                given = f"{tuple(value.shape)} of {value.dtype}"
                needed = f"{tuple(like.shape)} of {like.dtype}"
                raise ValueError(f"optimizer tensor '{path}' is {given}, not {needed}")
            if moment.endswith(NUMBER):
                self.optimizer.state[parameter][moment.removesuffix(NUMBER)] = value.item()
            else:
                self.optimizer.state[parameter][moment] = shard_like(value, parameter)
        self.swap_average()


def decay_by_layer(optimizer: torch.optim.Optimizer, module: nn.Module, decay: float) -> None:
    """Divide the groups of an optimizer by layer, each with its learning rate (`TrainConfig.layer_decay`)."""
    [backbone] = (each for each in module.modules() if isinstance(each, Backbone))
    last = len(backbone.blocks) + 1
    layers = dict[nn.Parameter, int]()
    for name, parameter in backbone.named_parameters():
        part, number, *_ = f"{name}.".split(".")
        layers[parameter] = int(number) + 1 if part == "blocks" else last * part.endswith("norm")
    groups = list[dict[str, Any]]()
    for group in optimizer.param_groups:
        for layer in range(last + 1):
            own = [each for each in group["params"] if layers.get(each, last) == layer]
            groups += [{**group, "params": own, "lr": group["lr"] * decay ** (last - layer)}] if own else []
    optimizer.param_groups[:] = groups


def _saved(path: str, value: object) -> tuple[str, Tensor]:
    if isinstance(value, Tensor):
        return path, value
    if isinstance(value, bool | int | float):
        kind = torch.float64 if isinstance(value, float) else None
        return f"{path}{NUMBER}", torch.tensor(value, dtype=kind)
    raise ValueError(f"the optimizer keeps '{path}' as {type(value).__name__}; allowed: tensors and numbers")

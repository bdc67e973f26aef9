"""One step of training: gradients over the pieces of a batch, and an update that a non-finite number
withholds.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isopix.core.device import Precision, autocast
from isopix.core.types import Scalar
from isopix.train.optim import OptimizerSpec, load_state, state_tensors
from isopix.train.tasks import Learner


def require_compiler() -> None:
    """Raises ValueError if torch lies where its compiler is known to fail."""
    where = Path(torch.__file__).parent
    if " " in str(where):
        raise ValueError(
            f"compile=true does not work with torch in a path with a space ({where}), "
            "from which its compiler cannot link; use compile=false, or install torch elsewhere"
        )


class NonFiniteError(RuntimeError):
    """The loss or the gradient stopped being a number; no weight was changed by it."""

    def __init__(self, step: int, advice: str = ""):
        super().__init__(
            f"the loss or its gradient is not finite at step {step}; "
            f"the weights are as before that step{advice}"
        )
        self.step = step


class Stepper:
    """A learner, its optimizer, and the memory of whether all numbers have been finite so far."""

    def __init__(
        self,
        learner: Learner,
        optimizer: OptimizerSpec,
        *,
        accumulate: int,
        precision: Precision,
        compiled: bool,
    ):
        self.learner, self.accumulate, self.precision = learner, accumulate, precision
        module = learner.module
        self.device = next(module.parameters()).device
        self.peak = optimizer.lr
        self.optimizer: Any = optimizer.build(module.parameters())
        self.grade = torch.compile(module, dynamic=False, fullgraph=True) if compiled else module
        self.bad_step = torch.tensor(-1, device=self.device)

    def advance(self, problem: Any, *, step: int, factor: float) -> Scalar:
        """Update the weights once, at `factor` times the peak rate; returns the loss before the update, on
        the device.

        From the first non-finite loss or gradient on, no update reaches the weights; `check` tells.
        """
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=self.device)
        for piece in problem.to(self.device).chunks(self.accumulate):
            with autocast(self.device, self.precision):
                part = self.grade(piece)
            part.backward()
            loss = loss + part.detach()
        norm = torch.nn.utils.get_total_norm(
            p.grad for p in self.learner.module.parameters() if p.grad is not None
        )
        finite = torch.isfinite(loss) & torch.isfinite(norm)
        self.bad_step = torch.where((self.bad_step < 0) & ~finite, step, self.bad_step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * factor
        self.optimizer.grad_scale, self.optimizer.found_inf = None, (self.bad_step >= 0).float()
        self.optimizer.step()
        return loss

    def check(self) -> None:
        """Raises NonFiniteError that names the first bad step; waits for the device."""
        step = int(self.bad_step)
        if step >= 0:
            raise NonFiniteError(step)

    def state(self) -> dict[str, Tensor]:
        """The optimizer's tensors by name."""
        return state_tensors(self.optimizer, self.learner.module.named_parameters())

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `state` returned."""
        load_state(self.optimizer, self.learner.module.named_parameters(), tensors)

"""One training step: gradients summed over the chunks of a batch, and an update if they are finite."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from isopix.core.device import Precision, autocast
from isopix.core.types import Scalar
from isopix.train.optim import OptimizerSpec
from isopix.train.tasks import Batch, TrainingTask


def check_compiler() -> None:
    """Raises ValueError if PyTorch is installed where its compiler is known to fail."""
    folder = Path(torch.__file__).parent
    if " " in str(folder):
        raise ValueError(
            f"compile=true does not work with torch in a path with a space ({folder}), "
            "from which its compiler cannot link; use compile=false, or install torch elsewhere"
        )


class NonFiniteError(RuntimeError):
    """The loss or its gradient is inf or nan; the weights are those before that step."""

    def __init__(self, step: int, advice: str = ""):
        super().__init__(
            f"the loss or its gradient is not finite at step {step}; "
            f"the weights are as before that step{advice}"
        )
        self.step = step


class TrainStep:
    """A task and its optimizer; remembers the first step with a non-finite loss or gradient."""

    def __init__(
        self,
        task: TrainingTask,
        optimizer: OptimizerSpec,
        *,
        accumulate: int,
        precision: Precision,
        compiled: bool,
    ):
        self.task, self.accumulate, self.precision = task, accumulate, precision
        module = task.module
        self.device = next(module.parameters()).device
        self.peak_lr = optimizer.lr
        self.optimizer = optimizer.build(module.parameters())
        self.loss: Callable[[Batch], Scalar] = (
            torch.compile(module, dynamic=False, fullgraph=True) if compiled else module
        )
        self.bad_step = torch.tensor(-1, device=self.device)

    def __call__(self, batch: Batch, *, step: int, lr_factor: float) -> Scalar:
        """Update the weights once at `lr_factor` times the peak learning rate; return the loss before the
        update, on the device.

        From the first non-finite loss or gradient on, no update is applied, and `check` raises.
        """
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        for chunk in batch.to(self.device).chunks(self.accumulate):
            with autocast(self.device, self.precision):
                loss = self.loss(chunk)
            torch.autograd.backward(loss)
            total = total + loss.detach()
        parameters = self.task.module.parameters()
        norm = torch.nn.utils.get_total_norm(p.grad for p in parameters if p.grad is not None)
        finite = torch.isfinite(total) & torch.isfinite(norm)
        self.bad_step = torch.where((self.bad_step < 0) & ~finite, step, self.bad_step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak_lr * lr_factor
        # Attributes that fused optimizers read and torch does not declare: they skip where found_inf is 1.
        vars(self.optimizer).update(grad_scale=None, found_inf=(self.bad_step >= 0).float())
        self.optimizer.step()
        return total

    def check(self) -> None:
        """Raises NonFiniteError with the first non-finite step; waits for the device."""
        step = int(self.bad_step)
        if step >= 0:
            raise NonFiniteError(step)

    def state(self) -> dict[str, Tensor]:
        """Return the state of the optimizer by the names of the parameters: `<parameter>/<moment>`."""
        return {
            f"{name}/{moment}": value
            for name, parameter in self.task.module.named_parameters()
            for moment, value in self.optimizer.state.get(parameter, {}).items()
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state` returned.

        Raises ValueError if a tensor belongs to no parameter, or if a trainable parameter has no state while
        others have.
        """
        parameters = dict(self.task.module.named_parameters())
        trained = {name for name, parameter in parameters.items() if parameter.requires_grad}
        stateless = sorted(trained - {path.rpartition("/")[0] for path in tensors})
        if tensors and stateless:
            raise ValueError(f"the optimizer has no state of parameter '{stateless[0]}'")
        for path, value in tensors.items():
            name, _, moment = path.rpartition("/")
            if name not in parameters:
                raise ValueError(f"optimizer tensor '{path}' belongs to no parameter of this model")
            parameter = parameters[name]
            self.optimizer.state[parameter][moment] = value.to(parameter.device)

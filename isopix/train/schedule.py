"""Learning-rate schedules, as functions of the step."""

import abc
import math

from isopix.core.registry import Part, register


class ScheduleSpec(Part, noun="schedule"):
    """Settings of a learning-rate schedule."""

    @abc.abstractmethod
    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        """Return the factor of the peak learning rate at `step` of 0 .. `steps` - 1; `epoch` is the number of
        steps in an epoch.
        """


@register("warmup_cosine")
class WarmupCosineSchedule(ScheduleSpec):
    """Linear warmup, then cosine decay that reaches zero one step after the last (iGPT section 3.4)."""

    warmup_epochs: float = 1.0
    """Length of the warmup in epochs."""
    max_warmup_fraction: float = 0.1
    """Longest warmup, as a fraction of the steps."""

    def __post_init__(self) -> None:
        if not (0 <= self.warmup_epochs < math.inf and 0 <= self.max_warmup_fraction < 1):
            raise ValueError(
                f"warmup_epochs {self.warmup_epochs} must be at least 0, "
                f"and max_warmup_fraction {self.max_warmup_fraction} in [0, 1)"
            )

    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        warmup = round(min(self.warmup_epochs * epoch, self.max_warmup_fraction * steps))
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))

    def label(self) -> str:
        most = f"at most {100 * self.max_warmup_fraction:g} % of steps"
        return f"{self.warmup_epochs:g}-epoch warmup ({most}), cosine decay to 0"


@register("constant")
class ConstantSchedule(ScheduleSpec):
    """A constant learning rate (iGPT section 3.4: fine-tuning)."""

    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        return 1.0

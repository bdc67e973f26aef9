"""Learning-rate schedules: the rate as a function of the step."""

import abc
import math

from isopix.core.registry import Part, register


class ScheduleSpec(Part, noun="schedule"):
    """Settings of a learning-rate schedule."""

    @abc.abstractmethod
    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        """Return what the peak learning rate is multiplied by at `step` (from 0) of `steps`; `epoch` is the
        steps of one epoch.
        """


@register("warmup_cosine")
class WarmupCosine(ScheduleSpec):
    """Linear warm-up over one epoch, then half a cosine that would be zero one step after the last (iGPT
    section 3.4).

    Short runs see less than an epoch; the warm-up never takes more than `warmup_most` of the run.
    """

    warmup_epochs: float = 1.0
    warmup_most: float = 0.1

    def __post_init__(self) -> None:
        if not (0 <= self.warmup_epochs < math.inf and 0 <= self.warmup_most < 1):
            raise ValueError(
                f"warmup_epochs {self.warmup_epochs} must be at least 0, "
                f"and warmup_most {self.warmup_most} in [0, 1)"
            )

    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        """What the peak rate is multiplied by at `step` (from 0) of `steps`; `epoch` is the steps of one
        epoch.
        """
        warmup = round(min(self.warmup_epochs * epoch, self.warmup_most * steps))
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))

    def label(self) -> str:
        most = f"at most {100 * self.warmup_most:g} % of steps"
        return f"{self.warmup_epochs:g}-epoch warmup ({most}), cosine decay to 0"


@register("constant")
class Constant(ScheduleSpec):
    """The same rate at every step (iGPT section 2.3: fine-tuning)."""

    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        return 1.0

    def label(self) -> str:
        return "constant"

"""Classification beside the objective: one pass, two losses of the same states."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.config import spec
from isopix.core.types import Hidden, Images, Labels, Scalar, Tokens
from isopix.model.backbone import States
from isopix.model.heads import at_least_float32
from isopix.model.pool import POOLS, Pool
from isopix.objectives.base import Loss, Problem
from isopix.objectives.network import Network

ClassLogits = Float[Tensor, "B C"]


@spec
class Classify:
    """Fine-tuning: generative_weight * L_GEN + L_CLF (iGPT sections 2.3 and 2.4; weight 1 there).

    `generative_weight` 0 leaves L_CLF alone, `inf` leaves L_GEN alone. The class head reads the pooled states
    of `layer`, None the last; `dropout` leaves out features of that vector while training. `patience` ends
    the run after so many evaluations without a better validation accuracy; with None, and where L_GEN is
    alone, nothing is chosen: it goes to its last step, and those weights are judged. A masked network is
    trained with its masks on; `masked` says whether it is also judged with them (the released code does).
    """

    generative_weight: float | Literal["inf"] = 1.0
    layer: int | None = None
    pool: Pool = "mean"
    dropout: float = 0.0
    patience: int | None = 10
    masked: bool = True

    def __post_init__(self) -> None:
        if not float(self.generative_weight) >= 0:
            raise ValueError(f"generative_weight {self.generative_weight} must be at least 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout {self.dropout} must lie in [0, 1)")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience {self.patience} must be at least 1")

    def place(self, depth: int) -> int:
        """The layer that the class head reads of so many. Raises ValueError for one that is not there."""
        if self.layer is not None and not 0 <= self.layer <= depth:
            raise ValueError(f"classify.layer {self.layer} does not exist; allowed: 0 to {depth}")
        return depth if self.layer is None else self.layer

    @property
    def chooses(self) -> bool:
        """Whether validation chooses the step whose weights are judged."""
        return self.classifies and self.patience is not None

    @property
    def generates(self) -> bool:
        return float(self.generative_weight) > 0

    @property
    def classifies(self) -> bool:
        return self.generative_weight != "inf"


class Lesson(NamedTuple):
    """A problem whose images have classes as well.

    `kept` is what dropout multiplies each feature by, `share` each image's part of L_CLF.
    """

    problem: Problem
    labels: Labels
    kept: Float[Tensor, "B D"]
    share: Float[Tensor, " B"]

    def to(self, device: torch.device) -> "Lesson":
        problem, *rest = self
        return Lesson(problem.to(device), *(item.to(device, non_blocking=True) for item in rest))

    def pieces(self, count: int) -> Iterator["Lesson"]:
        """The lesson in `count` runs of images, as even as can be."""
        problem, *rest = self
        split = (item.tensor_split(count) for item in rest)
        return (Lesson(*items) for items in zip(problem.pieces(count), *split, strict=True))


class Classifier(nn.Module):
    """A network with a head for classes, which is zero at first: exactly ln C before training.

    The head is one matrix [C D] without bias, as the released code has it.
    """

    def __init__(self, network: Network, width: int, classes: int, settings: Classify):
        super().__init__()
        self.network, self.settings = network, settings
        self.layer = settings.place(network.backbone.depth)
        self.head = nn.Linear(width, classes, bias=False, device=network.device)
        nn.init.zeros_(self.head.weight)
        self._freeze()

    def prepare(self, images: Images, labels: Labels, generator: torch.Generator) -> Lesson:
        """The network's own problem, the classes, and what dropout leaves."""
        problem = self.network.prepare(images, generator)
        kept = torch.ones(len(images), self.head.in_features)
        if self.settings.dropout:
            left = 1 - self.settings.dropout
            kept = (torch.rand(kept.shape, generator=generator) < left).float() / left
        return Lesson(problem, labels, kept, torch.full((len(images),), 1 / len(images)))

    def forward(self, lesson: Lesson) -> Loss:
        """The joint loss."""
        problem, settings = lesson.problem, self.settings
        if not settings.classifies:
            return self.network(problem)
        if not settings.generates:
            [at] = self.network.backbone.some([self.layer], problem.images, problem.hidden)
            return self._class_loss(self.head_of(at, lesson.kept), lesson)
        at, last = self._states(problem)
        chosen = self._class_loss(self.head_of(at, lesson.kept), lesson)
        generative = self.network.objective.loss(last, problem, self.network.head)
        return float(settings.generative_weight) * generative + chosen

    def grade(self, lesson: Lesson) -> dict[str, Scalar]:
        """Nats a graded code, nats an image, and the share of images whose class is answered."""
        problem = lesson.problem
        at, last = self._states(problem)
        unmasked = problem.hidden is not None and not self.settings.masked
        logits = self.answer(problem.images) if unmasked else self.head_of(at)
        return {
            "loss_nats": self.network.objective.nats(last, problem, self.network.head),
            "class_nats": self._class_loss(logits, lesson),
            "accuracy": (logits.argmax(1) == lesson.labels).float().mean(),
        }

    def answer(self, images: Images, hidden: Hidden | None = None) -> ClassLogits:
        """Logits [B C] of the classes."""
        [at] = self.network.backbone.some([self.layer], images, hidden)
        return self.head_of(at)

    def head_of(self, tokens: Tokens, kept: Float[Tensor, "B D"] | None = None) -> ClassLogits:
        """The class logits that pooled tokens give."""
        pooled = POOLS[self.settings.pool](tokens)
        return at_least_float32(self.head(pooled if kept is None else pooled * kept))

    def _class_loss(self, logits: ClassLogits, lesson: Lesson) -> Scalar:
        return (F.cross_entropy(logits, lesson.labels, reduction="none") * lesson.share).sum()

    def _states(self, problem: Problem) -> list[States]:
        """n of the head's layer, and n of the last at every position."""
        backbone = self.network.backbone
        at, last = backbone.some([self.layer, backbone.depth], problem.images, problem.hidden)
        return [at, backbone.placed(last)]

    def _freeze(self) -> None:
        """What has no part in the loss is not trained, and needs no memory of the optimiser."""
        idle: set[nn.Parameter] = set()
        if not self.settings.generates:
            idle = set(self.network.parameters()) - set(self.network.backbone.upto(self.layer).parameters())
        if not self.settings.classifies:
            idle = set(self.head.parameters())
        for parameter in idle:
            parameter.requires_grad_(False)

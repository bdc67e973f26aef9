"""Objective: poses a problem to the backbone and grades the answer."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Graded, Hidden, Images, Scalar, Tokens
from isopix.model.masking import Masking

Loss = Scalar  # mean nats per graded code: a mean within each image, then over images


class Problem(NamedTuple):
    """What the backbone is shown, what it must name, and what counts.

    `share` is each image's part of the loss; the shares of a whole batch sum to one, so that the losses of
    its pieces add up to its loss.
    """

    images: Images
    hidden: Hidden | None
    answers: Codes
    graded: Graded
    share: Float[Tensor, " B"]

    def to(self, device: torch.device) -> "Problem":
        moved: list[Any] = [None if item is None else item.to(device, non_blocking=True) for item in self]
        return Problem(*moved)

    def pieces(self, count: int) -> Iterator["Problem"]:
        """The problem in `count` runs of images, as even as can be."""
        split: list[Any] = [[None] * count if item is None else item.tensor_split(count) for item in self]
        return (Problem(*items) for items in zip(*split, strict=True))


@runtime_checkable
class Objective(Protocol):
    """What every objective spec offers; the unions in this package list the specs."""

    @property
    def causal(self) -> bool:
        """Whether a position may only look at those before it."""

    @property
    def masking(self) -> Masking:
        """What of a hidden position the blocks may see."""

    @property
    def graded(self) -> float:
        """The share of positions that are graded, hence decoded, on average."""

    def prepare(self, images: Images, codec: Codec, generator: torch.Generator) -> Problem:
        """A problem made of a batch; chance comes from `generator` alone."""

    def loss(self, tokens: Tokens, problem: Problem, head: nn.Module) -> Loss:
        """The grade of the backbone's answer `tokens`."""


def pose(images: Images, hidden: Hidden | None, answers: Codes, graded: Graded) -> Problem:
    """A problem in which every image that has something graded counts alike."""
    counted = graded.any(1).float()
    return Problem(images, hidden, answers, graded, counted / counted.sum().clamp(min=1))


def nll_by_image(tokens: Tokens, problem: Problem, head: nn.Module) -> Float[Tensor, " B"]:
    """The mean of -ln p(answer) over each image's own graded codes, in nats; 0 where nothing is graded."""
    logits = rearrange(head(tokens), "b n q k -> b k n q")
    losses = F.cross_entropy(logits, problem.answers, reduction="none").mean(-1)
    return (losses * problem.graded).sum(1) / problem.graded.sum(1).clamp(min=1)


def nll(tokens: Tokens, problem: Problem, head: nn.Module, most: int | None = None) -> Loss:
    """-ln p(answer) by the problem's shares (iGPT section 2.1), in nats; at most `most` positions are
    decoded.

    With `most`, the head sees only graded positions, gathered over the batch into a block of this fixed size,
    so that compiled code keeps one shape and hidden pixels alone cost memory.
    """
    weight = problem.graded * (problem.share / problem.graded.sum(1).clamp(min=1))[:, None]
    tokens, answers, weight = (
        rearrange(x, "b n ... -> 1 (b n) ...") for x in (tokens, problem.answers, weight)
    )
    if most is not None:
        graded = problem.graded.flatten()
        rows = torch.nonzero_static(graded, size=most, fill_value=0)[:, 0]
        real = torch.arange(most, device=rows.device) < graded.sum()
        tokens, answers, weight = tokens[:, rows], answers[:, rows], weight[:, rows] * real
    logits = head(tokens)
    losses = F.cross_entropy(logits.flatten(0, 2), answers.flatten(), reduction="none")
    return (losses.view(answers.shape).mean(-1) * weight).sum()

"""Objective: poses a problem to the backbone and grades the answer."""

import abc
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.registry import Part
from isopix.core.types import Codes, Grid, Images, LossMask, Mask, PositionIndices, Scalar, Tokens
from isopix.model.likelihood import Decoder
from isopix.model.masking import MaskingSpec

Loss = Scalar  # mean nats per graded code: a mean within each image, then over images


class Problem(NamedTuple):
    """What the backbone is shown, what it must name, and what counts.

    `images` are what stems read, with whatever has been done to them; `answers` are of the images as they
    were. `hidden` the backbone may not see, `graded` counts in the loss: neither implies the other.
    `share` is each image's part of the loss; the shares of a whole batch sum to one, so that the losses of
    its pieces add up to its loss.
    """

    images: Images
    hidden: Mask | None
    answers: Codes
    graded: LossMask
    share: Float[Tensor, " B"]

    def to(self, device: torch.device) -> "Problem":
        moved: list[Any] = [None if item is None else item.to(device, non_blocking=True) for item in self]
        return Problem(*moved)

    def chunks(self, count: int) -> Iterator["Problem"]:
        """The problem in `count` runs of images, as even as can be."""
        split: list[Any] = [[None] * count if item is None else item.tensor_split(count) for item in self]
        return (Problem(*items) for items in zip(*split, strict=True))


class ObjectiveSpec(Part, noun="objective"):
    """Settings of an objective: it makes training batches and computes their loss."""

    @property
    def causal(self) -> bool:
        """Whether a position may only look at those before it."""
        return False

    @property
    def smoothing(self) -> float:
        """How much of each label all levels share in training."""
        return 0.0

    @property
    @abc.abstractmethod
    def corruption(self) -> MaskingSpec:
        """What of a hidden position the blocks may see."""

    @property
    @abc.abstractmethod
    def paints(self) -> bool:
        """Whether it names every code from those before it, so that pictures can be drawn."""

    @property
    def single_codes(self) -> bool:
        """Whether it may hide single codes of a position."""
        return False

    def require(self, grid: Grid) -> None:
        """Raises ValueError for a grid on which no problem can be posed."""

    @abc.abstractmethod
    def decoded(self, positions: int, codes: int) -> float:
        """The share of so many positions with something graded, hence decoded, on average."""

    @abc.abstractmethod
    def prepare(self, images: Images, codec: Codec, generator: torch.Generator) -> Problem:
        """A problem made of a batch; chance comes from `generator` alone."""

    def places(self, problem: Problem) -> PositionIndices | None:
        """Of each image places with all that is graded among them; None for every position."""
        return None

    @abc.abstractmethod
    def loss(
        self, tokens: Tokens, problem: Problem, head: Decoder, places: PositionIndices | None = None
    ) -> Loss:
        """What training makes small, of the backbone's answer `tokens` everywhere or at these places."""

    @abc.abstractmethod
    def nats(
        self, tokens: Tokens, problem: Problem, head: Decoder, places: PositionIndices | None = None
    ) -> Loss:
        """-ln p(answer), of the same; most objectives train it as it is."""


def pose(images: Images, hidden: Mask | None, answers: Codes, graded: LossMask) -> Problem:
    """A problem in which every image that has something graded counts alike."""
    counted = graded.any(2).any(1).float()
    return Problem(images, hidden, answers, graded, counted / counted.sum().clamp(min=1))


def nll(
    tokens: Tokens,
    problem: Problem,
    head: Decoder,
    most: int | None = None,
    *,
    places: PositionIndices | None = None,
    smoothing: float = 0.0,
) -> Loss:
    """-ln p(answer) by the problem's shares (iGPT section 2.1), in nats; at most `most` positions are
    decoded. `tokens` are of all positions, or of these `places`, with all that is graded among them. With
    `smoothing` it is against soft labels.

    With `most`, the head sees only positions with something graded, gathered over the batch into a block of
    this fixed size, so that compiled code keeps one shape and hidden pixels alone cost memory.
    """
    graded = problem.graded.expand_as(problem.answers)
    weight = graded * (problem.share / graded.sum((1, 2)).clamp(min=1))[:, None, None]
    touched, answers = problem.graded.any(-1, keepdim=True), problem.answers
    if places is not None:
        touched, answers, weight = (
            torch.take_along_dim(x, places[..., None], 1) for x in (touched, answers, weight)
        )
    tokens, answers, weight = (rearrange(x, "b n ... -> 1 (b n) ...") for x in (tokens, answers, weight))
    if most is not None:
        touched = touched.flatten()
        rows = torch.nonzero_static(touched, size=most, fill_value=0)[:, 0]
        real = torch.arange(most, device=rows.device) < touched.sum()
        tokens, answers, weight = tokens[:, rows], answers[:, rows], weight[:, rows] * real[:, None]
    return (head.grade(tokens, answers, smoothing) * weight).sum()


def nll_by_image(tokens: Tokens, problem: Problem, head: Decoder) -> Float[Tensor, " B"]:
    """The mean of -ln p(answer) over each image's own graded codes, in nats; 0 where nothing is graded. Only
    positions with something graded are decoded.
    """
    graded = problem.graded.expand_as(problem.answers)
    image, position = problem.graded.any(-1).nonzero(as_tuple=True)
    losses = head.grade(tokens[None, image, position], problem.answers[None, image, position])[0]
    sums = losses.new_zeros(len(graded)).index_add(0, image, (losses * graded[image, position]).sum(-1))
    return sums / graded.sum((1, 2)).clamp(min=1)

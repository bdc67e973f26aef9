"""Masked objective: name the codes of hidden positions from all that is left (BERT)."""

import torch

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Grid, Images, PositionIndices, Tokens
from isopix.model.likelihood import Decoder
from isopix.model.masking import MaskingSpec, ZeroOut
from isopix.objectives.base import Loss, ObjectiveSpec, Problem, nll, pose
from isopix.objectives.bert_corruption import Corruption, of_content, spared, stacked, untouched
from isopix.objectives.masks import Independent, MaskSpec


@register("masked")
class Masked(ObjectiveSpec):
    """L_BERT = E over masks M of the mean over i in M of -ln p(x_i | x outside M) (iGPT section 2.1).

    The paper writes a sum over M; the released code, and we, take the mean within an image, then over images.
    `corruption` is what of a hidden position is seen. Of the positions in M a share `swapped` shows the
    pixels of another one, and a share `kept` its own; all are graded. With `static` the mask of an image is a
    function of its pixels, the same whenever it is seen. `smoothing` shares so much of each label among all
    levels while training; evaluations are without. With `causal` a position sees those before it and itself
    alone.
    """

    mask: MaskSpec = Independent()
    corruption: MaskingSpec = ZeroOut()
    swapped: float = 0.0
    kept: float = 0.0
    static: bool = False
    smoothing: float = 0.0
    causal: bool = False

    def __post_init__(self) -> None:
        if not (self.swapped >= 0 and self.kept >= 0 and self.swapped + self.kept <= 1):
            raise ValueError(f"swapped {self.swapped} and kept {self.kept} must be shares of one whole")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing {self.smoothing} must lie in [0, 1)")
        if self.mask.single_codes and not self.corruption.masks_single_codes:
            raise ValueError(
                f"mask {self.mask.kind} hides single codes, which corruption {self.corruption.kind} cannot; "
                "take objective.corruption=zero_out"
            )

    @property
    def paints(self) -> bool:
        return False

    @property
    def single_codes(self) -> bool:
        return self.mask.single_codes

    def require(self, grid: Grid) -> None:
        self.mask.require(grid)

    def decoded(self, positions: int, codes: int) -> float:
        return self.mask.touched(positions, codes)

    def prepare(self, images: Images, codec: Codec, generator: torch.Generator) -> Problem:
        """Hide and grade the same codes, but for what is swapped or kept; an image with nothing graded does
        not count.
        """
        drawn = self._drawn(images, codec, generator)
        shown = drawn.shown(images, codec.grid) if self.swapped else images
        graded, hidden = drawn.graded.to(images.device), drawn.hidden.to(images.device)
        return pose(shown, hidden, codec.encode(images), graded)

    def places(self, problem: Problem) -> PositionIndices | None:
        """As many of each image as any is ever graded at, the graded first; None for every position."""
        _, positions, codes = problem.answers.shape
        most = self.mask.most(1, positions, codes)
        if most == positions:
            return None
        return problem.graded.any(-1).to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]

    def loss(
        self, tokens: Tokens, problem: Problem, head: Decoder, places: PositionIndices | None = None
    ) -> Loss:
        return nll(tokens, problem, head, self._most(problem), places=places, smoothing=self.smoothing)

    def nats(
        self, tokens: Tokens, problem: Problem, head: Decoder, places: PositionIndices | None = None
    ) -> Loss:
        return nll(tokens, problem, head, self._most(problem), places=places)

    def _most(self, problem: Problem) -> int:
        """How many positions of a batch are graded, at most; equal images have equal static masks."""
        images, positions, codes = problem.answers.shape
        if self.static:
            return images * self.mask.most(1, positions, codes)
        return self.mask.most(images, positions, codes)

    def _drawn(self, images: Images, codec: Codec, generator: torch.Generator) -> Corruption:
        if not self.static:
            return self._one(len(images), codec, generator)
        return stacked(self._one(1, codec, each) for each in of_content(images))

    def _one(self, batch: int, codec: Codec, generator: torch.Generator) -> Corruption:
        chosen = self.mask.draw(batch, codec.grid, codec.num_codes, generator)
        if not (self.swapped or self.kept):
            return untouched(chosen)
        return spared(chosen, swapped=self.swapped, kept=self.kept, draw=generator)

    def label(self) -> str:
        return "masked, causal" if self.causal else "masked"

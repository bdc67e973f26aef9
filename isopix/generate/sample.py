"""Sampling is painting: the state is an image, and each position is drawn from what stands before it."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from isopix.core.config import config
from isopix.core.types import Codes, Grid, Images
from isopix.objectives.base import PretrainModel

NextLogits = Float[Tensor, "B Q K"]
NextCodes = Codes  # [B 1 Q]
Painted = UInt8[Tensor, "_ 3 H W"]  # as many as asked for


@config
class Sampling:
    """How a code is drawn from its logits: `temperature` 1 and no cuts is the model's own distribution
    (the paper's).

    `top_k` keeps the k likeliest codes; `top_p` the fewest likeliest whose probabilities reach p, after
    temperature.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"temperature {self.temperature} must be a number greater than 0; "
                "top_k=1 takes the likeliest code"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k {self.top_k} must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p {self.top_p} must lie in (0, 1]")

    def draw(self, logits: NextLogits, generator: torch.Generator) -> NextCodes:
        """One code for each row; chance comes from the CPU, so that every device draws alike."""
        chances = self.probabilities(logits).flatten(0, 1).cpu()
        drawn = torch.multinomial(chances, 1, generator=generator)
        return drawn.view(len(logits), 1, -1).to(logits.device)

    def probabilities(self, logits: NextLogits) -> NextLogits:
        """Probabilities after temperature, top-k and top-p; ties at a cut stay in."""
        logits = logits.float() / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k).values[..., -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        chances = logits.softmax(-1)
        if self.top_p is not None and self.top_p < 1:
            ranked = chances.sort(descending=True).values
            kept = ranked.cumsum(-1) - ranked < self.top_p
            least = ranked.masked_fill(~kept, torch.inf).amin(-1, keepdim=True)
            chances = chances.masked_fill(chances < least, 0)
        return chances / chances.sum(-1, keepdim=True)


class Stroke(NamedTuple):
    """One painted position: its codes [B 1 Q], and the logits [B Q K] from which they were drawn."""

    position: int
    codes: NextCodes
    logits: NextLogits


@torch.inference_mode()
def strokes(
    model: PretrainModel,
    canvas: Images,
    *,
    start: int,
    each: int = 1,
    sampling: Sampling,
    generator: torch.Generator,
) -> Iterator[Stroke]:
    """Paint positions `start`, `start` + 1 .. of every canvas, `each` times over from the same beginning.

    What stands before `start`, in the colours of the codec, is read in one pass and kept for all of the
    `each` paintings, which stand next to one another. Raises ValueError if the network cannot paint.
    """
    require_causal(model)
    network, backbone = model.network, model.network.backbone
    caches = backbone.new_caches()
    given = network.inputs_of_codes(network.codec.encode(canvas))
    tokens = backbone.decode_step(backbone.embed(given)[:, : start + 1], caches)[:, -1:]
    tokens = tokens.repeat_interleave(each, 0)
    if each > 1:
        for cache in caches:
            cache.repeat_batch(each)
    for position in range(start, backbone.grid.positions):
        logits = network.head.logits(tokens)[:, 0]
        codes = sampling.draw(logits, generator)
        yield Stroke(position, codes, logits)
        if position + 1 < backbone.grid.positions:
            inputs = network.inputs_of_codes(codes, Grid(1, 1))
            tokens = backbone.decode_step(backbone.embed_next(inputs, position + 1), caches)


def paint(
    model: PretrainModel,
    canvas: Images,
    *,
    start: int = 0,
    each: int = 1,
    sampling: Sampling,
    generator: torch.Generator,
    progress: Callable[[int], None] = lambda position: None,
) -> Painted:
    """Keep the first `start` positions of each canvas, in raster order, and draw the rest; [B*each 3 H W].

    `progress` is told every position as it is painted. Raises ValueError if the network cannot paint.
    """
    codec = model.network.codec
    codes = codec.encode(canvas).repeat_interleave(each, 0)
    for stroke in strokes(model, canvas, start=start, each=each, sampling=sampling, generator=generator):
        codes[:, stroke.position] = stroke.codes[:, 0]
        progress(stroke.position)
    return codec.decode(codes)


def sample(
    model: PretrainModel,
    count: int,
    *,
    sampling: Sampling,
    generator: torch.Generator,
    progress: Callable[[int], None] = lambda position: None,
) -> Painted:
    """`count` images from nothing. Raises ValueError if the network cannot paint."""
    network = model.network
    grid, cell = network.codec.grid, network.codec.patch_size
    shape = (count, 3, grid.rows * cell, grid.cols * cell)
    blank = torch.zeros(shape, dtype=torch.uint8, device=network.device)
    return paint(model, blank, sampling=sampling, generator=generator, progress=progress)


def require_causal(model: PretrainModel) -> None:
    """Raises ValueError for a network that sees all sides, and says what it can do instead."""
    if not model.objective.can_sample:
        raise ValueError(
            "this model was trained with the masked objective and cannot paint pixel by pixel; "
            "it can fill in hidden pixels (isopix reconstruct) and be probed (isopix probe)"
        )

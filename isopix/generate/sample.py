"""Autoregressive sampling and completion: the positions of an image are sampled in raster order."""

import math
from collections.abc import Callable, Iterator
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from isopix.core.config import config
from isopix.core.ranges import Count, Range, check_ranges
from isopix.core.types import Codes, Grid, Images
from isopix.objectives.base import PretrainModel

NextLogits = Float[Tensor, "B Q K"]
NextCodes = Codes  # [B 1 Q]
SampledImages = UInt8[Tensor, "_ 3 H W"]  # as many as requested


@config
class SamplingConfig:
    """Settings of sampling from logits; the defaults sample from the model's own distribution, as the paper.

    `temperature` divides the logits. `top_k` keeps the k most likely codes. `top_p` keeps the smallest set of
    most likely codes whose probabilities, after temperature, sum to at least p (nucleus sampling).
    """

    temperature: float = 1.0
    top_k: Count | None = None
    top_p: Annotated[float, Range(above=0, high=1)] | None = None

    def __post_init__(self) -> None:
        check_ranges(self)
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"temperature {self.temperature} must be a finite number greater than 0; "
                "use top_k=1 for greedy decoding"
            )

    def sample_codes(self, logits: NextLogits, generator: torch.Generator) -> NextCodes:
        """Sample one code per row, on the CPU so that the result does not depend on the device."""
        probabilities = self.probabilities(logits).flatten(0, 1).cpu()
        codes = torch.multinomial(probabilities, 1, generator=generator)
        return codes.view(len(logits), 1, -1).to(logits.device)

    def probabilities(self, logits: NextLogits) -> NextLogits:
        """Return probabilities after temperature, top-k and top-p; codes tied at a cutoff are kept."""
        logits = logits.float() / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            cutoff = logits.topk(self.top_k).values[..., -1:]
            logits = logits.masked_fill(logits < cutoff, -torch.inf)
        probabilities = logits.softmax(-1)
        if self.top_p is not None and self.top_p < 1:
            ranked = probabilities.sort(descending=True).values
            kept = ranked.cumsum(-1) - ranked < self.top_p
            cutoff = ranked.masked_fill(~kept, torch.inf).amin(-1, keepdim=True)
            probabilities = probabilities.masked_fill(probabilities < cutoff, 0)
        return probabilities / probabilities.sum(-1, keepdim=True)


class DecodeStep(NamedTuple):
    """One sampled position: its codes [B 1 Q], and the logits [B Q K] they were sampled from."""

    position: int
    codes: NextCodes
    logits: NextLogits


@torch.inference_mode()
def decode_steps(
    model: PretrainModel,
    prompt: Images,
    *,
    start: int,
    samples_per_prompt: int = 1,
    sampling: SamplingConfig,
    generator: torch.Generator,
) -> Iterator[DecodeStep]:
    """Sample positions `start`, `start` + 1, ... of every prompt image, `samples_per_prompt` times.

    The positions before `start`, quantized by the codec, are computed once and cached for all samples of a
    prompt, which are adjacent in the batch. Raises ValueError if the network cannot sample.
    """
    require_sampling(model)
    network, backbone = model.network, model.network.backbone
    caches = backbone.new_caches()
    given = network.inputs_of_codes(network.codec.encode(prompt))
    tokens = backbone.decode_step(backbone.embed(given)[:, : start + 1], caches)[:, -1:]
    tokens = tokens.repeat_interleave(samples_per_prompt, 0)
    if samples_per_prompt > 1:
        for cache in caches:
            cache.repeat_batch(samples_per_prompt)
    for position in range(start, backbone.grid.positions):
        logits = network.head.logits(tokens)[:, 0]
        codes = sampling.sample_codes(logits, generator)
        yield DecodeStep(position, codes, logits)
        if position + 1 < backbone.grid.positions:
            inputs = network.inputs_of_codes(codes, Grid(1, 1))
            tokens = backbone.decode_step(backbone.embed_next(inputs, position + 1), caches)


def fill_in(
    model: PretrainModel,
    prompt: Images,
    *,
    start: int = 0,
    samples_per_prompt: int = 1,
    sampling: SamplingConfig,
    generator: torch.Generator,
    progress: Callable[[int], None] = lambda position: None,
) -> SampledImages:
    """Keep the first `start` positions of each prompt image, in raster order, and sample the others.

    Returns [B * samples_per_prompt, 3, H, W]. `progress` is called with each sampled position. Raises
    ValueError if the network cannot sample.
    """
    codec = model.network.codec
    codes = codec.encode(prompt).repeat_interleave(samples_per_prompt, 0)
    for step in decode_steps(
        model,
        prompt,
        start=start,
        samples_per_prompt=samples_per_prompt,
        sampling=sampling,
        generator=generator,
    ):
        codes[:, step.position] = step.codes[:, 0]
        progress(step.position)
    return codec.decode(codes)


def sample_images(
    model: PretrainModel,
    count: int,
    *,
    sampling: SamplingConfig,
    generator: torch.Generator,
    progress: Callable[[int], None] = lambda position: None,
) -> SampledImages:
    """Sample `count` images unconditionally. Raises ValueError if the network cannot sample."""
    network = model.network
    grid, cell = network.codec.grid, network.codec.patch_size
    shape = (count, 3, grid.rows * cell, grid.cols * cell)
    blank = torch.zeros(shape, dtype=torch.uint8, device=network.device)
    return fill_in(model, blank, sampling=sampling, generator=generator, progress=progress)


def require_sampling(model: PretrainModel) -> None:
    """Raise ValueError unless the network predicts every code from the codes before it."""
    if not model.objective.can_sample:
        other = "reconstruct masked pixels (isopix reconstruct) and " if model.objective.masks_input else ""
        raise ValueError(
            f"this model was trained with the {model.objective.label()} objective and cannot sample images; "
            f"it can {other}be probed (isopix probe)"
        )


def complete_images(
    model: PretrainModel,
    images: Images,
    *,
    rows: int,
    samples_per_prompt: int = 1,
    sampling: SamplingConfig,
    generator: torch.Generator,
    progress: Callable[[int], None] = lambda position: None,
) -> SampledImages:
    """Complete every image from its first `rows` rows of positions; the iGPT paper gives the upper half.

    Returns [B * samples_per_prompt, 3, H, W]; the completions of one image are adjacent. Raises ValueError if
    `rows` leaves no row to condition on or no row to sample.
    """
    grid = model.network.codec.grid
    if not 0 < rows < grid.rows:
        raise ValueError(f"rows must be between 1 and {grid.rows - 1} for this model; got {rows}")
    return fill_in(
        model,
        images,
        start=rows * grid.cols,
        samples_per_prompt=samples_per_prompt,
        sampling=sampling,
        generator=generator,
        progress=progress,
    )

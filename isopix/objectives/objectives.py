"""The objectives: autoregressive, masked, and none."""

import hashlib
from typing import Annotated, ClassVar, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.choices import Range
from isopix.core.random import generator as seeded
from isopix.core.registry import register
from isopix.core.types import Grid, Images, LossMask, Mask, PositionIndices
from isopix.model.masking import MaskingSpec, ShiftRightMaskingSpec, ZeroMaskingSpec
from isopix.model.stems.pixels import gather_patches
from isopix.objectives.base import Loss, ObjectiveSpec, TrainingBatch
from isopix.objectives.masks import BernoulliMask, MaskSpec


@register("autoregressive")
class Autoregressive(ObjectiveSpec):
    """L_AR = E[-ln p(x)], p(x) = prod_i p(x_i | x_1 .. x_i-1): mean over positions (iGPT section 2.1)."""

    can_sample: ClassVar[bool] = True

    @property
    def causal(self) -> bool:
        return True

    @property
    def corruption(self) -> ShiftRightMaskingSpec:
        return ShiftRightMaskingSpec()

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        targets = codec.encode(images)
        everywhere = torch.ones_like(targets[..., :1], dtype=torch.bool)
        return TrainingBatch.with_equal_weights(images, None, targets, everywhere)


class Corruption(NamedTuple):
    """`source` is the position whose pixels each position shows: its own, or one that was not chosen."""

    loss_mask: LossMask
    mask: Mask
    source: Int[Tensor, "B N"]

    def apply(self, images: Images, grid: Grid) -> Images:
        """Return images with the pixels of each position's source; stems are local: this moves embeddings."""
        patches = gather_patches(images, self.source.to(images.device), grid)
        return rearrange(patches, "b (h w) c p q -> b c (h p) (w q)", h=grid.rows)


def keep_or_swap(
    chosen: Mask, *, random_rate: float, keep_rate: float, generator: torch.Generator
) -> Corruption:
    """Of the chosen positions, keep a fraction as they are, show another position of the image, not chosen,
    at a fraction, and mask all others (80, 10 and 10% in ViT, appendix B.1.2).
    """
    whole = chosen.any(-1)
    choice, place = torch.rand(2, *whole.shape, generator=generator)
    free = (~whole).sum(1, keepdim=True)
    others = whole.to(torch.uint8).argsort(dim=1, stable=True)  # positions that were not chosen come first
    other = others.gather(1, (place * free).long().minimum((free - 1).clamp(min=0)))
    replaced = whole & (choice < random_rate) & (free > 0)
    visible = replaced | (whole & (choice >= random_rate) & (choice < random_rate + keep_rate))
    source = torch.where(replaced, other, torch.arange(whole.shape[1]))
    return Corruption(chosen, chosen & ~visible[..., None], source)


@register("masked")
class Masked(ObjectiveSpec):
    """L_BERT = E over masks M of the mean over i in M of -ln p(x_i | x outside M) (iGPT section 2.1).

    The paper writes a sum over M; the released code, and we, take the mean within an image, then over images.
    """

    masks_input: ClassVar[bool] = True

    mask: MaskSpec = BernoulliMask()
    """Positions in M, all of which are in the loss."""
    corruption: MaskingSpec = ZeroMaskingSpec()
    """What the blocks see in place of a masked position."""
    random_rate: float = 0.0
    """Fraction of the positions in M that show the pixels of another position."""
    keep_rate: float = 0.0
    """Fraction of the positions in M that show their own pixels."""
    deterministic_mask: bool = False
    """Whether the mask is a function of the pixels of the image."""
    label_smoothing: Annotated[float, Range(low=0, below=1)] = 0.0
    """Label smoothing of the targets, in training only."""
    causal: bool = False
    """Whether a position attends only to itself and those before it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        random, keep = self.random_rate, self.keep_rate
        if not (random >= 0 and keep >= 0 and random + keep <= 1):
            given = f"random_rate {random} and keep_rate {keep}"
            raise ValueError(f"{given} must be at least 0 and sum to at most 1")
        if self.mask.masks_single_codes and not self.corruption.masks_single_codes:
            raise ValueError(
                f"mask {self.mask.kind} masks single codes, which corruption {self.corruption.kind} cannot; "
                "use objective.corruption=zero"
            )

    def label(self) -> str:
        return "masked, causal" if self.causal else "masked"

    @property
    def masks_single_codes(self) -> bool:
        return self.mask.masks_single_codes

    def check_grid(self, grid: Grid) -> None:
        self.mask.check_grid(grid)

    def decoded_fraction(self, positions: int, num_codes: int) -> float:
        return self.mask.expected_fraction(positions, num_codes)

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        """Return a batch with the chosen codes in the loss; images with nothing in the loss have weight 0."""
        drawn = self._draw(images, codec, generator)
        self._check_counts(drawn.loss_mask)
        shown = drawn.apply(images, codec.grid) if self.random_rate else images
        mask, loss_mask = drawn.mask.to(images.device), drawn.loss_mask.to(images.device)
        return TrainingBatch.with_equal_weights(shown, mask, codec.encode(images), loss_mask)

    def make_reconstruction_batch(
        self, images: Images, codec: Codec, generator: torch.Generator
    ) -> TrainingBatch:
        batch = self.make_batch(images, codec, generator)  # training keeps or replaces some of the chosen
        return batch._replace(inputs=images, mask=batch.loss_mask)

    def loss_positions(self, batch: TrainingBatch) -> PositionIndices | None:
        _, positions, num_codes = batch.targets.shape
        most = self.mask.max_positions(1, positions, num_codes)
        if most == positions:
            return None
        order = batch.loss_mask.any(-1).to(torch.uint8).argsort(dim=1, descending=True, stable=True)
        return order[:, :most]

    def max_loss_positions(self, batch: TrainingBatch) -> int:
        images, positions, num_codes = batch.targets.shape
        if self.deterministic_mask:  # equal images have equal masks
            return images * self.mask.max_positions(1, positions, num_codes)
        return self.mask.max_positions(images, positions, num_codes)

    def num_visible(self, positions: int, num_codes: int) -> int | None:
        if not self.mask.fixed_count or self.random_rate or self.keep_rate:
            return None
        return positions - self.mask.max_positions(1, positions, num_codes)

    def _check_counts(self, chosen: Mask) -> None:
        (images, positions, num_codes), counts = chosen.shape, chosen.any(-1).sum(1)
        bound, most = (self.mask.max_positions(count, positions, num_codes) for count in (1, images))
        wrong = counts[counts != bound if self.mask.fixed_count else counts > bound].tolist()
        if not self.deterministic_mask and counts.sum() > most:
            wrong, bound = [int(counts.sum())], most
        if wrong:
            raise ValueError(
                f"mask {self.mask.kind} masks {wrong[0]} of {positions} positions each of {images} images; "
                f"its max_positions says {bound}"
            )

    def _draw(self, images: Images, codec: Codec, generator: torch.Generator) -> Corruption:
        if not self.deterministic_mask:
            return self._corrupt(len(images), codec, generator)
        digests = (hashlib.blake2b(image.numpy().tobytes(), digest_size=8) for image in images.cpu())
        generators = (seeded(0, f"static/{digest.hexdigest()}") for digest in digests)
        drawn = [self._corrupt(1, codec, own) for own in generators]
        return Corruption(*map(torch.cat, zip(*drawn, strict=True)))

    def _corrupt(self, batch: int, codec: Codec, generator: torch.Generator) -> Corruption:
        chosen = self.mask.sample(batch, codec.grid, codec.num_codes, generator)
        if not (self.random_rate or self.keep_rate):
            return Corruption(chosen, chosen, torch.arange(chosen.shape[1]).expand(chosen.shape[:2]))
        return keep_or_swap(
            chosen, random_rate=self.random_rate, keep_rate=self.keep_rate, generator=generator
        )


@register("none", "unknown")
class NoObjective(ObjectiveSpec):
    """Masks and predicts nothing: an imported network without a decoder, or trained on class labels."""

    @property
    def corruption(self) -> MaskingSpec:
        return ZeroMaskingSpec()

    def decoded_fraction(self, positions: int, num_codes: int) -> float:
        return 0.0

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        targets = codec.encode(images)
        nothing = torch.zeros_like(targets[..., :1], dtype=torch.bool)
        return TrainingBatch.with_equal_weights(images, None, targets, nothing)

    def decoded_loss(self, *given: object, **options: object) -> Loss:
        raise ValueError(
            "this network has no pre-training objective and no loss of codes; it can be probed, analyzed and "
            "fine-tuned on classes (generative_weight=0)"
        )

"""Objective: makes training batches of images, and computes the loss of a network on them."""

import abc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from isopix.codecs.base import Codec
from isopix.core.registry import Part
from isopix.core.types import Codes, Grid, Images, LossMask, Mask, PositionIndices, Scalar, Tokens
from isopix.model.heads import Likelihood
from isopix.model.masking import MaskingSpec
from isopix.model.network import Network
from isopix.model.stems.pixels import Inputs
from isopix.objectives.baselines import FROM_EARLIER_CODES, Baseline, MaskedCodes, Unigram, code_map
from isopix.objectives.visible_baselines import FROM_VISIBLE_CODES

Loss = Scalar  # mean nats per predicted code: a mean within each image, then over images
Augment = Callable[[Images], Images]


class TrainingBatch(NamedTuple):
    """Inputs, as corrupted and as the stem reads them, and targets: the codes of the uncorrupted images.

    `mask` covers what the network may not see, `loss_mask` what is in the loss: neither implies the other.
    `weights` are of the images, and sum to one over a batch, so that the losses of its chunks add up.
    """

    inputs: Inputs
    mask: Mask | None
    targets: Codes
    loss_mask: LossMask
    weights: Float[Tensor, " B"]

    @classmethod
    def with_equal_weights(
        cls, inputs: Inputs, mask: Mask | None, targets: Codes, loss_mask: LossMask
    ) -> "TrainingBatch":
        """Return a batch in which all images with something in the loss have the same weight."""
        counted = loss_mask.any(2).any(1).float()
        return cls(inputs, mask, targets, loss_mask, counted / counted.sum().clamp(min=1))

    def masked_codes(self, codec: Codec) -> MaskedCodes:
        """Return the targets as images; codes that are masked or in the loss are not visible."""
        hidden = self.loss_mask if self.mask is None else self.loss_mask | self.mask
        codes, visible, in_loss = (
            code_map(each.expand_as(self.targets), codec).cpu()
            for each in (self.targets, ~hidden, self.loss_mask)
        )
        return MaskedCodes(self.targets, codes, visible, in_loss, self.weights.cpu().double())

    def to(self, device: torch.device) -> "TrainingBatch":
        moved: list[Any] = [None if item is None else item.to(device, non_blocking=True) for item in self]
        return TrainingBatch(*moved)

    def chunks(self, count: int) -> Iterator["TrainingBatch"]:
        split: list[Any] = [[None] * count if item is None else item.tensor_split(count) for item in self]
        return (TrainingBatch(*items) for items in zip(*split, strict=True))


class ObjectiveSpec(Part, noun="objective"):
    """An objective, by its settings."""

    can_sample: ClassVar[bool] = False  # whether every code is predicted from the codes before it
    masks_input: ClassVar[bool] = False  # whether positions of the input are masked, to be reconstructed
    predicts_next: ClassVar[bool] = False  # whether what is read at a position predicts the next one

    @property
    def causal(self) -> bool:
        """Whether a position may only attend to itself and those before it."""
        return False

    @property
    def masks_single_codes(self) -> bool:
        """Whether single codes of a position may be masked."""
        return False

    @property
    def label_smoothing(self) -> float:
        """The probability that is shared by all codes in the soft labels of training."""
        return 0.0

    @property
    def baselines(self) -> tuple[type[Baseline], ...]:
        """The learning-free baselines of the loss; none for a loss that is not a mean over codes."""
        if self.can_sample:
            return FROM_EARLIER_CODES
        if self.masks_input and not self.causal:
            return FROM_VISIBLE_CODES
        return (Unigram,)

    @property
    @abc.abstractmethod
    def corruption(self) -> MaskingSpec:
        """What the blocks see in place of a masked position."""

    def check_grid(self, grid: Grid) -> None:
        """Raise ValueError for a grid on which no batch can be made."""

    def decoded_fraction(self, positions: int, num_codes: int) -> float:
        """Return the expected fraction of positions that the head decodes, having codes in the loss."""
        return 1.0

    @abc.abstractmethod
    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        """Return a batch of these images, perhaps corrupted; all randomness is `generator`'s."""

    def make_reconstruction_batch(
        self, images: Images, codec: Codec, generator: torch.Generator
    ) -> TrainingBatch:
        """Return the batch to reconstruct outside training: that of training, unless it shows the targets."""
        return self.make_batch(images, codec, generator)

    def loss_positions(self, batch: TrainingBatch) -> PositionIndices | None:
        """Return positions of each image, equally many, that include all in the loss; None for all."""
        return None

    def max_loss_positions(self, batch: TrainingBatch) -> int | None:
        """Return an upper bound on the positions of a batch with codes in the loss; None for all."""
        return None

    def num_visible(self, positions: int, num_codes: int) -> int | None:
        """Return how many of the positions of every image are not masked, if equally many; else None."""
        return None

    def loss(self, network: Network, batch: TrainingBatch) -> Loss:
        """Return the loss in mean nats per predicted code; before training ln K, but for a regression."""
        return self._loss(network, batch, self.label_smoothing)

    def eval_loss(self, network: Network, batch: TrainingBatch) -> Loss:
        """Return the loss with hard labels, whatever those of training are."""
        return self._loss(network, batch, 0.0)

    def _loss(self, network: Network, batch: TrainingBatch, label_smoothing: float) -> Loss:
        backbone = network.backbone
        positions = self.loss_positions(batch) if backbone.supports_forward_at else None
        if positions is None:
            tokens = backbone(batch.inputs, batch.mask, self.num_visible(*batch.targets.shape[1:]))
        else:
            tokens = backbone.forward_at(batch.inputs, batch.mask, positions)
        return self.decoded_loss(network.head, tokens, batch, positions, label_smoothing=label_smoothing)

    def decoded_loss(
        self,
        head: Likelihood,
        tokens: Tokens,
        batch: TrainingBatch,
        positions: PositionIndices | None = None,
        *,
        label_smoothing: float = 0.0,
    ) -> Loss:
        """Return the loss, given the head's inputs at all positions or at `positions`."""
        most = self.max_loss_positions(batch)
        return nll(head, tokens, batch, most, positions=positions, label_smoothing=label_smoothing)


class PretrainModel(nn.Module):
    """A network and its objective: images to a batch to a loss."""

    if TYPE_CHECKING:

        def __call__(self, batch: TrainingBatch) -> Loss: ...

    def __init__(self, network: Network, objective: ObjectiveSpec):
        super().__init__()
        self.network, self.objective = network, objective

    def make_batch(
        self, images: Images, generator: torch.Generator, augment: Augment = lambda images: images
    ) -> TrainingBatch:
        batch = self.objective.make_batch(images, self.network.codec, generator)
        return stem_inputs(batch, images, self.network, augment)

    def make_reconstruction_batch(self, images: Images, generator: torch.Generator) -> TrainingBatch:
        batch = self.objective.make_reconstruction_batch(images, self.network.codec, generator)
        return stem_inputs(batch, images, self.network)

    def forward(self, batch: TrainingBatch) -> Loss:
        return self.objective.loss(self.network, batch)

    def eval_loss(self, batch: TrainingBatch) -> Loss:
        return self.objective.eval_loss(self.network, batch)


def stem_inputs(
    batch: TrainingBatch, images: Images, network: Network, augment: Augment = lambda images: images
) -> TrainingBatch:
    """Return the batch with its inputs augmented and as the stem reads them, codes shared if unchanged."""
    shown = augment(batch.inputs)
    if shown is images and network.backbone.stem.reads_codes:
        return batch._replace(inputs=batch.targets)
    return batch._replace(inputs=network.inputs_of(shown))


def nll(
    head: Likelihood,
    tokens: Tokens,
    batch: TrainingBatch,
    max_positions: int | None = None,
    *,
    positions: PositionIndices | None = None,
    label_smoothing: float = 0.0,
) -> Loss:
    """Return -ln p(target) in nats, averaged by the weights of the batch (iGPT section 2.1).

    `tokens` are at all positions, or at `positions`. With `max_positions` the head reads only positions in
    the loss, gathered over the batch into a block of this fixed size, so that compiled code keeps one shape.
    """
    loss_mask = batch.loss_mask.expand_as(batch.targets)
    weights = loss_mask * (batch.weights / loss_mask.sum((1, 2)).clamp(min=1))[:, None, None]
    decoded, targets = batch.loss_mask.any(-1, keepdim=True), batch.targets
    if positions is not None:
        decoded, targets, weights = (
            torch.take_along_dim(x, positions[..., None], 1) for x in (decoded, targets, weights)
        )
    tokens, targets, weights = (rearrange(x, "b n ... -> 1 (b n) ...") for x in (tokens, targets, weights))
    if max_positions is not None:
        decoded = decoded.flatten()
        rows = torch.nonzero_static(decoded, size=max_positions, fill_value=0)[:, 0]
        real = torch.arange(max_positions, device=rows.device) < decoded.sum()
        tokens, targets, weights = tokens[:, rows], targets[:, rows], weights[:, rows] * real[:, None]
    return (head.nll(tokens, targets, label_smoothing) * weights).sum()


def nll_per_image(network: Network, batch: TrainingBatch) -> Float[Tensor, " B"]:
    """Return the mean of -ln p(target) over the codes in the loss of each image, in nats; 0 for none."""
    tokens = network.backbone(batch.inputs, batch.mask)
    loss_mask = batch.loss_mask.expand_as(batch.targets)
    image, position = batch.loss_mask.any(-1).nonzero(as_tuple=True)
    losses = network.head.nll(tokens[None, image, position], batch.targets[None, image, position])[0]
    sums = losses.new_zeros(len(loss_mask)).index_add(0, image, (losses * loss_mask[image, position]).sum(-1))
    return sums / loss_mask.sum((1, 2)).clamp(min=1)

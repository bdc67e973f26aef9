"""The fine-tuned model and its settings: a class head on a pre-trained network, and the joint loss."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.choices import Count, Dropout, Range, check_ranges
from isopix.core.config import config
from isopix.core.random import generator as seeded
from isopix.core.types import Grid, Images, Labels, Mask, Scalar
from isopix.data.patch_augment import PatchAugmentSpec
from isopix.finetuning.mixing import LabeledBatch, mix
from isopix.model.backbone import HiddenState
from isopix.model.blocks.convolution import Bottleneck
from isopix.model.heads import ClassHead, ClassLogits
from isopix.model.init import initialize
from isopix.model.positions import Interpolation, Pool, pool_tokens, pooled_width, require_pool
from isopix.model.stems.pixels import Inputs
from isopix.objectives.base import Augment, Loss, ObjectiveSpec, PretrainModel, TrainingBatch, stem_inputs
from isopix.objectives.masks import exact_ratio_mask
from isopix.objectives.objectives import Masked, NoObjective
from isopix.train.tasks import NO_PATCH_AUGMENT, Batch, Metric, augment_patches


@config
class FineTuneConfig:
    """Fine-tuning; the loss is generative_weight * L_GEN + L_CLF (iGPT section 2.3: weight 1)."""

    generative_weight: float | Literal["inf"] = 1.0
    """Weight of L_GEN; 0 leaves L_CLF alone, `inf` leaves L_GEN alone."""
    layer: int | None = None
    """Layer that the class head reads; null: the last."""
    pool: Pool = "mean"
    """How the positions of an image become one vector."""
    residual_block: bool = False
    """Whether this vector goes through a residual block first (PatchFormer section 2.2)."""
    head_bias: bool = False
    """Whether the classes have biases."""
    dropout: Dropout = 0.0
    """Dropout of this vector, in training."""
    label_smoothing: Dropout = 0.0
    """Label smoothing of the classes."""
    mixup: Annotated[float, Range(low=0)] = 0.0
    """Mixup of training images and labels, the parameter of its Beta distribution; 0: none."""
    cutmix: Annotated[float, Range(low=0)] = 0.0
    """CutMix, likewise; with both, half of the batches have it."""
    class_weights: Literal["balanced"] | None = None
    """Weights of the classes in L_CLF; balanced: all classes weigh equally, whatever their images."""
    patience: Count | None = 10
    """Evaluations without a better validation accuracy before the best weights are kept; null: the last."""
    mask_ratio: Dropout | None = None
    """Fraction of the positions masked at random; 0 masks none, null uses the masks of the objective."""
    mask_at_eval: bool = True
    """Whether images are masked in evaluations too, as in the released code of iGPT."""
    interpolation: Interpolation = "bilinear"
    """How position embeddings are resized to another image size."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if not float(self.generative_weight) >= 0:
            raise ValueError(f"generative_weight {self.generative_weight} must be at least 0")
        if self.mask_ratio == 0 and self.has_generative_loss:
            raise ValueError(
                "mask_ratio 0 leaves no codes to predict; set a ratio above 0, mask_ratio=null for the "
                "objective's own mask, or generative_weight=0"
            )

    def label(self) -> str:
        if not (self.has_generative_loss and self.has_class_loss):
            return "L_GEN" if self.has_generative_loss else "L_CLF"
        weight = float(self.generative_weight)
        return "L_GEN + L_CLF" if weight == 1 else f"{weight:g} · L_GEN + L_CLF"

    def layer_index(self, depth: int) -> int:
        """Return the layer that the class head reads. Raises ValueError if it does not exist."""
        if self.layer is not None and not 0 <= self.layer <= depth:
            raise ValueError(f"finetune.layer {self.layer} does not exist; allowed: 0 to {depth}")
        return depth if self.layer is None else self.layer

    def class_head(self, grid: Grid, width: int, num_classes: int) -> ClassHead:
        """Return the head for tokens with `width` channels, before it is initialized."""
        inputs = pooled_width(self.pool, grid, width)
        return ClassHead(inputs, num_classes, residual_block=self.residual_block, bias=self.head_bias)

    def weights_of_classes(self, labels: Labels | None, num_classes: int) -> Float[Tensor, " C"] | None:
        """Return n / (C n_c) for a class with n_c of n labels, as scikit-learn balances; None for equal."""
        if self.class_weights is None or labels is None:
            return None
        counts = torch.bincount(labels, minlength=num_classes)
        return len(labels) / ((counts > 0).sum() * counts.clamp(min=1))  # of a class without images unused

    @property
    def loss_weights(self) -> dict[str, float]:
        """Weights of w L_GEN + L_CLF (iGPT section 2.3) by metric; a loss of weight 0 is not computed."""
        if self.generative_weight == "inf":
            return {"loss_nats": 1.0}
        both = {"loss_nats": self.generative_weight, "class_nats": 1.0}
        return {name: weight for name, weight in both.items() if weight}

    @property
    def has_generative_loss(self) -> bool:
        return "loss_nats" in self.loss_weights

    @property
    def has_class_loss(self) -> bool:
        return "class_nats" in self.loss_weights


class FineTuneModel(nn.Module):
    """A pre-trained network with a class head, which starts at zero: the untrained loss is exactly ln C."""

    def __init__(
        self, model: PretrainModel, width: int, num_classes: int, settings: FineTuneConfig, *, seed: int = 0
    ):
        super().__init__()
        network = model.network
        self.network, self.settings = network, settings
        grid = network.backbone.grid
        require_pool(settings.pool, grid)
        self.objective = _with_mask_ratio(model.objective, settings.mask_ratio, grid.positions)
        depth = network.backbone.depth
        self.layer = settings.layer_index(depth)
        self.head = settings.class_head(grid, width, num_classes).to(network.device)
        if self.head.block is not None:
            draw = seeded(seed, "classifier")
            inputs = self.head.weight.shape[1]
            initialize(self.head.block, {"": Bottleneck.INIT}, width=inputs, depth=depth, generator=draw)

    def make_batch(
        self,
        images: Images,
        labels: Labels,
        generator: torch.Generator,
        augment: Augment = lambda images: images,
    ) -> LabeledBatch:
        """Return the objective's batch, or an unmasked one, with the classes and a dropout mask."""
        objective = NoObjective() if self.settings.mask_ratio == 0 else self.objective
        batch = objective.make_batch(images, self.network.codec, generator)
        dropout_mask = torch.ones(len(images), self.head.weight.shape[1])
        if self.settings.dropout:
            keep = 1 - self.settings.dropout
            dropout_mask = (torch.rand(dropout_mask.shape, generator=generator) < keep).float() / keep
        batch = stem_inputs(batch, images, self.network, augment)
        own, weights = torch.ones(len(images)), torch.full((len(images),), 1 / len(images))
        return LabeledBatch(batch, labels, labels, own, dropout_mask, weights)

    def forward(self, labeled: LabeledBatch) -> dict[str, Loss]:
        """Return `total_nats`, `loss_nats` (L_GEN per predicted code) and `class_nats` (L_CLF per image)."""
        batch, settings = labeled.batch, self.settings
        if not settings.has_class_loss:
            return self._with_total({"loss_nats": self.objective.loss(self.network, batch)})
        states, last = self._states(batch)
        losses: dict[str, Loss] = {}
        if last is not None:
            losses["loss_nats"] = self.objective.decoded_loss(
                self.network.head, last, batch, label_smoothing=self.objective.label_smoothing
            )
        logits = self.class_logits(states, labeled.dropout_mask)
        losses["class_nats"] = self._class_loss(logits, labeled, settings.label_smoothing)
        return self._with_total(losses)

    def evaluate(self, labeled: LabeledBatch, images: Images) -> dict[str, Metric]:
        """Return losses, without dropout and label smoothing, and `accuracy` [B], 1 where correct, else 0.

        `images` are those of the batch without corruption, which are classified unless `mask_at_eval`.
        """
        batch, metrics = labeled.batch, dict[str, Metric]()
        unmasked = batch.mask is not None and not self.settings.mask_at_eval
        if not self.settings.has_generative_loss:
            read = (self.network.inputs_of(images), None) if unmasked else (batch.inputs, batch.mask)
            logits = self.predict(*read)
        else:
            states, last = self._states(batch)
            assert last is not None
            metrics["loss_nats"] = self.objective.decoded_loss(self.network.head, last, batch)
            logits = self.predict(self.network.inputs_of(images)) if unmasked else self.class_logits(states)
        metrics["class_nats"] = self._class_loss(logits, labeled)
        metrics["accuracy"] = (logits.argmax(1) == labeled.labels).float()
        return self._with_total(metrics)

    def predict(self, inputs: Inputs, mask: Mask | None = None) -> ClassLogits:
        [states] = self.network.backbone.forward_intermediates([self.layer], inputs, mask)
        return self.class_logits(states)

    def class_logits(
        self, states: HiddenState, dropout_mask: Float[Tensor, "B _"] | None = None
    ) -> ClassLogits:
        backbone = self.network.backbone
        pooled = pool_tokens(states, self.settings.pool, backbone.grid, backbone.num_prefix_tokens)
        return self.head(pooled, dropout_mask)

    def _with_total(self, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
        first, *rest = (weight * metrics[name] for name, weight in self.settings.loss_weights.items())
        return {"total_nats": sum(rest, first), **metrics}

    def _class_loss(self, logits: ClassLogits, labeled: LabeledBatch, smoothing: float = 0.0) -> Scalar:
        own, other = (
            F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)
            for labels in (labeled.labels, labeled.others)
        )
        losses = labeled.own * own + (1 - labeled.own) * other
        return (losses * labeled.weights).sum()

    def _states(self, batch: TrainingBatch) -> tuple[HiddenState, HiddenState | None]:
        backbone, generative = self.network.backbone, self.settings.has_generative_loss
        visible = None if batch.mask is None else self.objective.num_visible(*batch.targets.shape[1:])
        layers = [self.layer, backbone.depth] if generative else [self.layer]
        found = list(backbone.forward_intermediates(layers, batch.inputs, batch.mask, visible))
        return found[0], backbone.decoder_input(found[1], batch.mask) if generative else None

    def freeze_unused(self) -> None:
        """Freeze what the loss does not depend on, so that the optimizer keeps no state of it."""
        unused: set[nn.Parameter] = set()
        backbone = self.network.backbone
        if not self.settings.has_generative_loss:
            unused = set(self.network.parameters()) - set(backbone.truncated(self.layer).parameters())
        if self.settings.mask_ratio == 0:
            unused |= set(backbone.masking.parameters())
        if not self.settings.has_class_loss:
            unused = set(self.head.parameters())
        for parameter in unused:
            parameter.requires_grad_(False)


class FineTuneTask:
    """Fine-tuning on labeled images. `patch_augment` changes the inputs in training, not the targets;
    class weights are of the `labels` of all training images.
    """

    def __init__(
        self,
        model: FineTuneModel,
        patch_augment: PatchAugmentSpec = NO_PATCH_AUGMENT,
        labels: Labels | None = None,
    ):
        self.module, self.patch_augment = model, patch_augment
        self.class_weights = model.settings.weights_of_classes(labels, len(model.head.weight))

    def make_batch(self, images: Images, labels: Labels | None, generator: torch.Generator) -> LabeledBatch:
        assert labels is not None, "they are labeled"
        settings, network = self.module.settings, self.module.network
        augment, own = augment_patches(self.patch_augment, network, generator), 1.0
        if settings.mixup or settings.cutmix:
            images, own = mix(images, settings.mixup, settings.cutmix, generator)
        batch = self.module.make_batch(images, labels, generator, augment)
        batch = batch._replace(others=labels.flip(0), own=torch.full_like(batch.own, own))
        if self.class_weights is None:
            return batch
        first, second = own * self.class_weights[labels], (1 - own) * self.class_weights[batch.others]
        return batch._replace(weights=batch.weights * (first + second), own=first / (first + second))

    def losses(self, batch: Batch) -> dict[str, Loss]:
        losses: dict[str, Loss] = self.module(batch)
        return losses

    def evaluate(
        self, images: Images, labels: Labels | None, generator: torch.Generator
    ) -> dict[str, Metric]:
        assert labels is not None, "they are labeled"
        labeled = self.module.make_batch(images, labels, generator)
        return self.module.evaluate(labeled.to(images.device), images)


def _with_mask_ratio(objective: ObjectiveSpec, mask_ratio: float | None, num_positions: int) -> ObjectiveSpec:
    if not mask_ratio:
        return objective
    if not isinstance(objective, Masked):
        raise ValueError(
            f"finetune.mask_ratio {mask_ratio} is not possible with objective {objective.kind}, "
            "which masks nothing"
        )
    return replace(objective, mask=exact_ratio_mask(mask_ratio, num_positions))

"""PretrainedModel: a pre-trained network as a torch module, with the same methods for every kind of model."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from isopix.analysis.attention import QueryAttention, attention_from
from isopix.analysis.scores import ScoreConfig, code_nats, surprise_maps
from isopix.core.choices import Count, NonNegative
from isopix.core.config import to_dict
from isopix.core.device import autocast, runtime_environment
from isopix.core.random import generator
from isopix.core.text import count_of
from isopix.core.types import Images, Logits
from isopix.core.verb import Flat, checked
from isopix.finetuning.evaluate import EnsembleLogits, ensemble_logits, majority_vote, num_masks
from isopix.generate.complete import (
    Completions,
    Prompt,
    Reconstruction,
    complete_images,
    reconstruct_images,
)
from isopix.generate.mask import MaskLike, chosen_mask, completion_mask
from isopix.generate.results import DEFAULT_PASSES, DEFAULT_SAMPLING, Passes, SamplingConfig
from isopix.generate.sample import GenerationVerb, SampledImages, require, sample_images
from isopix.model.heads import ClassLogits
from isopix.objectives.base import nll_per_image
from isopix.pretrained.feature_extractor import FeatureExtractor, inference
from isopix.pretrained.inputs import ArrayLike, ImagesLike, as_mask, require_images
from isopix.runs.state import CLASSIFIER, MODEL, records_of
from isopix.storage import checkpoint
from isopix.storage.run_folder import require_new

BATCH_SIZE = 16


class PretrainedModel(FeatureExtractor):
    """A pre-trained network: `model(images)` returns features, as a timm model with `num_classes=0` does.

    `layer`, 0 to `depth`, and `pool` choose the features of `forward`: those after the next block's first
    norm (`normed`, iGPT section 2.4), or the residual stream itself (`residual`); negative layers count from
    the end. The pool is by default that of the recipe: the class token (`first`) of a model that has one,
    else the mean over positions. The module starts in evaluation mode with gradients enabled; freeze it with
    `requires_grad_`.

    All methods take images as `preprocess` does: uint8 arrays or tensors [B C H W], [B H W C], [C H W],
    [H W C] or [H W] of 1, 3 or 4 channels, PIL images, files (paths, or their bytes), or lists of these.
    Arrays of the model's size are taken as they are, all other images are cropped at their center and resized
    as those of its run.

    `forward`, `forward_features`, `forward_intermediates`, `forward_head` and `class_logits` compute with
    gradients; all others without, and return CPU tensors; random draws are a function of `seed`. They raise
    ValueError for wrong arguments and for what this kind of model does not support.

        model = isopix.load("igpt.digits-trained")
        pictures = model.sample(16, temperature=0.9)  # uint8 [16 3 8 8]
        features = model.features(["a.png", "b.jpg"])  # float32 [2 D]
    """

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes of a fine-tuned model, in the order of its logits; none of another."""
        return self.loaded.classes

    @checked
    def logits(
        self, images: ImagesLike, *, mask: ArrayLike | None = None, batch_size: Count = BATCH_SIZE
    ) -> Logits:
        """Return the logits [B N Q K]; `mask`, bool [B N] or [B N Q], is True where masked."""
        self.loaded.require_decoder("logits")
        if mask is not None and not self.loaded.recipe.objective.masks_input:
            raise ValueError("an autoregressive model takes no mask")
        inputs, device, logits = require_images(self.preprocess(images)), self.network.device, []
        masks = None if mask is None else as_mask(mask, inputs, self.network.codec)
        with inference(self, self.precision):
            for start in range(0, len(inputs), batch_size):
                batch = slice(start, start + batch_size)
                masked = None if masks is None else masks[batch].to(device)
                logits.append(self.network(self.network.inputs_of(inputs[batch].to(device)), masked).cpu())
        return torch.cat(logits)

    def class_logits(self, images: ImagesLike) -> ClassLogits:
        """Return the class logits [B C] of a fine-tuned model, of images without masks; gradients flow."""
        model, inputs = self.loaded.finetuned(), require_images(self.preprocess(images))
        with autocast(self.network.device, self.precision):
            return model.predict(self.network.inputs_of(inputs.to(self.network.device)))

    @checked
    def predict(
        self, images: ImagesLike, *, mask_ensemble: NonNegative | None = None, seed: int = 0
    ) -> NDArray[Any]:
        """Return the most likely classes [B] by vote over `mask_ensemble` masks (0: unmasked)."""
        logits = self._ensemble(images, mask_ensemble, seed)
        return np.array(self.classes)[majority_vote(logits.argmax(-1), seed=seed).numpy()]

    @checked
    def predict_proba(
        self, images: ImagesLike, *, mask_ensemble: NonNegative | None = None, seed: int = 0
    ) -> Float[Tensor, "B C"]:
        """Return the probability of each of the `classes`, the mean over masks as `predict` takes them."""
        return self._ensemble(images, mask_ensemble, seed).softmax(-1).mean(0)

    def _ensemble(self, images: ImagesLike, mask_ensemble: int | None, seed: int) -> EnsembleLogits:
        model, inputs = self.loaded.finetuned(), require_images(self.preprocess(images))
        masks = num_masks(model, mask_ensemble)
        with inference(self, self.precision):
            return ensemble_logits(model, inputs, masks=masks, seed=seed, precision=self.precision)

    @checked
    def nll(
        self, images: ImagesLike, *, seed: int = 0, batch_size: Count = BATCH_SIZE
    ) -> Float[Tensor, " B"]:
        """Return the mean nats per predicted code of each image, of a masked model those masked by `seed`."""
        self.loaded.require_decoder("nll")
        inputs = require_images(self.preprocess(images)).to(self.network.device)
        batch = self.loaded.model.make_batch(inputs, generator(seed, "nll"))
        with inference(self, self.precision):
            chunks = batch.chunks(-(-len(inputs) // batch_size))
            return torch.cat([nll_per_image(self.network, chunk).cpu() for chunk in chunks])

    @checked
    def surprise(self, images: ImagesLike, *, num_masks: Count = 32, seed: int = 0) -> Float[Tensor, "B R S"]:
        """Return nats per pixel, summed over channels, of a masked model the mean over masks by `seed`.

        A patch has a number for each part that its codec predicts; NaN where nothing was predicted.
        """
        self.loaded.require_decoder("surprise")
        inputs = require_images(self.preprocess(images)).to(self.network.device)
        config = ScoreConfig(num_masks=num_masks, seed=seed, precision=self.precision)
        with inference(self, self.precision):
            return surprise_maps(self.network.codec, code_nats(self.loaded.model, inputs, config))

    @checked
    def attention(
        self, image: ImagesLike, position: tuple[int, int] | None = None
    ) -> Float[Tensor, "attentions heads R S"]:
        """Return the attention from a position (row, column; default: the center) of one image to all.

        Each attention of the blocks sums to one, without start and class tokens.
        """
        inputs, (rows, cols) = require_images(self.preprocess(image)), self.network.backbone.grid
        row, col = position or (rows // 2, cols // 2)
        if len(inputs) != 1 or not (0 <= row < rows and 0 <= col < cols):
            given = f"{count_of(len(inputs), 'image')} and position {row}, {col}"
            raise ValueError(f"attention is of one image at a position of {rows} x {cols}; got {given}")
        found = self.attention_at(inputs, row, col)
        return rearrange(found.heads[0], "attentions heads (h w) -> attentions heads h w", h=rows)

    def attention_at(self, images: Images, row: int, col: int) -> QueryAttention:
        """Return the attention from a position of each of the images that `preprocess` returned."""
        backbone, causal = self.network.backbone, self.loaded.recipe.objective.causal
        query = torch.tensor([backbone.num_prefix_tokens + row * backbone.grid.cols + col])
        with inference(self, "fp32"):
            return attention_from(self.network, images, query, causal=causal)

    def sampling(self, sampling: SamplingConfig) -> SamplingConfig:
        return replace(sampling, precision=sampling.precision or self.precision)

    @checked
    def sample(
        self,
        count: Count,
        *,
        sampling: Flat[SamplingConfig] = DEFAULT_SAMPLING,
        seed: int = 0,
        batch_size: Count | None = None,
    ) -> SampledImages:
        """Sample images, uint8 [count 3 H W]; image i is a function of `seed` and i.

        `batch_size` is by default what the free memory allows, else RuntimeError is raised.
        """
        self.require("sample")
        chosen = self.sampling(sampling)
        return sample_images(self.loaded.model, count, sampling=chosen, seed=seed, batch_size=batch_size)

    @checked
    def complete(
        self,
        images: ImagesLike,
        rows: int | None = None,
        *,
        mask: MaskLike | None = None,
        each: Count = 1,
        passes: Flat[Passes] = DEFAULT_PASSES,
        sampling: Flat[SamplingConfig] = DEFAULT_SAMPLING,
        seed: int = 0,
        batch_size: Count | None = None,
    ) -> Completions:
        """Sample `each` completions of what a mask hides, or all but the first `rows` rows (default: half).

        `mask` is bool [H W], or what `isopix.generate.mask` allows. An autoregressive model sees the pixels
        before each one only; a masked model fills in hidden positions in `iterations` passes, in an `order`.
        """
        prompt = self.prompt(images, rows, mask=mask, each=each, passes=passes, sampling=sampling, seed=seed)
        return complete_images(self.loaded.model, prompt, batch_size=batch_size)

    @checked
    def prompt(
        self,
        images: ImagesLike,
        rows: int | None = None,
        *,
        mask: MaskLike | None = None,
        each: Count = 1,
        passes: Flat[Passes] = DEFAULT_PASSES,
        sampling: Flat[SamplingConfig] = DEFAULT_SAMPLING,
        seed: int = 0,
    ) -> Prompt:
        """Return what `complete` starts from."""
        self.require("complete")
        inputs, codec = require_images(self.preprocess(images)), self.network.codec
        hidden = completion_mask(chosen_mask(codec, rows=rows, mask=mask), codec, len(inputs), seed=seed)
        return Prompt(inputs, hidden, each, self.sampling(sampling), passes, seed)

    def require(self, verb: GenerationVerb) -> None:
        require(self.loaded.model, verb)
        self.loaded.require_decoder(verb)

    @checked
    def reconstruct(self, images: ImagesLike, *, seed: int = 0) -> Reconstruction:
        """Mask positions at random by `seed`, as in training, and predict their most likely codes."""
        self.require("reconstruct")
        inputs = require_images(self.preprocess(images)).to(self.network.device)
        with inference(self, self.precision):
            draw = generator(seed, "hide")
            return reconstruct_images(self.loaded.model, inputs, generator=draw, modes=self.loaded.modes)

    @checked
    def save(self, folder: str | os.PathLike[str], *, card: str = "") -> None:
        """Write weights, recipe, palette and a hash of each file to a new folder that `isopix.load` reads.

        `card` becomes its README.md.
        """
        loaded, target = self.loaded, Path(folder).resolve()  # a link stays, and its target is written
        require_new(target)
        own = loaded.environment
        environment = to_dict(own) if own else runtime_environment(self.network.device)
        state = replace(loaded.state, codec=loaded.network.codec.fingerprint())
        records = records_of(loaded.recipe, state, environment, loaded.imported)
        tensors = {MODEL: loaded.network.tensors()}
        if loaded.class_head is not None:
            tensors[CLASSIFIER] = loaded.class_head.state_dict()

        def write_card(folder: Path) -> None:
            if card:
                (folder / "README.md").write_text(card, encoding="utf-8")

        checkpoint.save_checkpoint(target, tensors, records, write_card)

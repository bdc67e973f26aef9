"""PretrainedModel: a pre-trained network as a torch module, with the same methods for every kind of model."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, SupportsIndex

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isopix.api.arguments import checked
from isopix.api.inference import inference
from isopix.api.inputs import ArrayLike, as_images, as_mask, require_images
from isopix.api.pickling import new_with_plugins, used_plugins
from isopix.api.progress import Progress
from isopix.api.saved_model import write_model
from isopix.core.device import Precision, autocast, report_memory
from isopix.core.random import generator
from isopix.core.ranges import Count
from isopix.core.types import Images, Logits
from isopix.generate.complete import (
    Completions,
    complete_images,
    make_passes,
    make_prompt,
    require_completion,
)
from isopix.generate.completion_mask import MaskLike
from isopix.generate.filling import Order
from isopix.generate.reconstruct import Reconstruction, reconstruct_images, require_masked_inputs
from isopix.generate.sample import SampledImages, sample_images
from isopix.generate.sampling_config import SamplingConfig
from isopix.interop import hub
from isopix.model.backbone import FeatureKind, HiddenState
from isopix.model.evaluation_mode import evaluation_mode
from isopix.model.network import Network, without_start_token
from isopix.model.pool import Pool, pool_tokens, pooled_width
from isopix.objectives.base import nll_per_image
from isopix.probing.features import extract_features
from isopix.runs.load import LoadedRun

BATCH_SIZE = 16


class PretrainedModel(nn.Module):
    """A pre-trained network: `model(images)` returns features, as a timm model with `num_classes=0` does.

    `layer`, 0 to `depth`, and `pool` choose the features of `forward`: those after the next block's first
    norm (`normed`, iGPT section 2.4), or the residual stream itself (`residual`); negative layers count from
    the end. The pool is by default that of the recipe: the class token (`first`) of a model that has one,
    else the mean over positions. The module starts in evaluation mode with gradients enabled; freeze it with
    `requires_grad_`.

    All methods take uint8 images [B 3 H W] or [B H W 3] of the model's resolution, arrays or tensors, or
    integer codes [B N] or [B N Q]. All but `forward`, `forward_features` and `forward_head` compute without
    gradients and return CPU tensors; random draws are a function of `seed`. They raise ValueError for wrong
    arguments and for what this kind of model does not support.
    """

    @checked
    def __init__(
        self,
        loaded: LoadedRun,
        *,
        layer: int = -1,
        pool: Pool | None = None,
        features: FeatureKind = "normed",
        precision: Precision = "fp32",
    ):
        super().__init__()
        self.loaded, self.precision = loaded, precision
        self.network: Network = loaded.network
        self.layer, self.feature_kind = self._layer_index(layer), features
        self.pool: Pool = pool or loaded.recipe.pool
        self.eval()

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """Have the plugins that the classes of its modules are from loaded before it when it is unpickled."""
        reduced = super().__reduce_ex__(max(2, int(protocol)))
        assert isinstance(reduced, tuple), "a module is not a global"
        return (new_with_plugins, (type(self), used_plugins(self.loaded)), *reduced[2:])

    def extra_repr(self) -> str:
        recipe, grid = self.loaded.recipe, self.network.codec.grid
        shape = f"depth={self.depth}, width={recipe.model.width}, grid={grid.rows}x{grid.cols}"
        return f"{recipe.name}, {recipe.objective.kind}, step={self.loaded.step}, {shape}, layer={self.layer}"

    @property
    def depth(self) -> int:
        """Number of blocks L; layers are 0 to L."""
        return self.network.backbone.depth

    @property
    def num_features(self) -> int:
        """Number D of features per image: the width, times the number of cells of a pool of several."""
        return self.num_pooled(self.pool)

    def num_pooled(self, pool: Pool) -> int:
        """Return the number of features per image under a pool."""
        return pooled_width(pool, self.network.backbone.grid, self.loaded.recipe.model.width)

    @property
    def num_prefix_tokens(self) -> int:
        """Number of tokens before the positions: 1 with a class token, else 0."""
        return self.network.backbone.num_prefix_tokens

    def images(self, images: ArrayLike) -> Images:
        """Return uint8 images [B 3 H W] of the model's resolution. Raises ValueError for anything else."""
        return as_images(images, self.network.codec, self.network.device)

    def forward_features(self, images: ArrayLike) -> HiddenState:
        """Return the tokens of the chosen layer, [B N D] with any class token first; gradients flow."""
        device, network = self.network.device, self.network.truncated(self.layer)
        given = self.images(images).to(device)
        shown = given if len(given) else given.new_zeros(1, *given.shape[1:])  # no part expects no images
        with autocast(device, self.precision):
            *_, tokens = network.features(shown, kind=self.feature_kind)
        return tokens if len(given) else tokens[:0]

    def forward_head(self, tokens: HiddenState) -> Float[Tensor, "B _"]:
        """Pool the tokens that `forward_features` returns to one float32 vector per image."""
        return pool_tokens(tokens, self.pool, self.network.backbone.grid, self.num_prefix_tokens)

    def forward(self, images: ArrayLike) -> Float[Tensor, "B _"]:
        """Return the pooled features of the chosen layer, float32 on the model's device; gradients flow."""
        return self.forward_head(self.forward_features(images))

    @checked
    def logits(
        self, images: ArrayLike, *, mask: ArrayLike | None = None, batch_size: Count = BATCH_SIZE
    ) -> Logits:
        """Return the logits [B N Q K] of every position; those of an autoregressive model at position i
        depend on the positions before i only.

        `mask`, bool [B N] or [B N Q] and True where masked, is for masked models.
        """
        self.loaded.require_decoder("logits")
        if mask is not None and not self.loaded.recipe.objective.masks_input:
            raise ValueError("an autoregressive model takes no mask")
        inputs, device, logits = require_images(self.images(images)), self.network.device, []
        masks = None if mask is None else as_mask(mask, inputs, self.network.codec)
        with inference(self, self.precision):
            for start in range(0, len(inputs), batch_size):
                batch = slice(start, start + batch_size)
                masked = None if masks is None else masks[batch].to(device)
                network_inputs = self.network.inputs_of(inputs[batch].to(device))
                logits.append(self.network(network_inputs, masked).cpu())
        return torch.cat(logits)

    @checked
    def features(
        self,
        images: ArrayLike,
        layer: int | None = None,
        *,
        features: FeatureKind | None = None,
        pool: Pool | None = None,
        start_token: bool = True,
        batch_size: Count | None = None,
    ) -> Float[Tensor, "B _"]:
        """Return the features that a linear probe reads at a layer 0..L (iGPT section 2.4), float32; layer,
        kind and pool are the model's own by default.

        `start_token=False` omits the start token of an autoregressive model, as the feature path of
        `transformers` does.
        """
        network = self.network if start_token else without_start_token(self.network)
        network = network.truncated(self.layer if layer is None else self._layer_index(layer))
        with evaluation_mode(network):
            return extract_features(
                network,
                self.images(images),
                features=features or self.feature_kind,
                pool=pool or self.pool,
                batch_size=batch_size,
                precision=self.precision,
            )[-1]

    @checked
    def nll(self, images: ArrayLike, *, seed: int = 0, batch_size: Count = BATCH_SIZE) -> Float[Tensor, " B"]:
        """Return the mean negative log-likelihood per predicted code of each image, in nats.

        An autoregressive model predicts all codes. A masked model predicts the codes masked at random by
        `seed`, as in training, so that its values are estimates.
        """
        self.loaded.require_decoder("nll")
        inputs = require_images(self.images(images)).to(self.network.device)
        batch = self.loaded.model.make_batch(inputs, generator(seed, "nll"))
        with inference(self, self.precision):
            chunks = batch.chunks(-(-len(inputs) // batch_size))
            return torch.cat([nll_per_image(self.network, chunk).cpu() for chunk in chunks])

    @checked
    def sample(
        self,
        count: Count,
        *,
        sampling: SamplingConfig | None = None,
        seed: int = 0,
        batch_size: Count | None = None,
        progress: Progress | None = None,
    ) -> SampledImages:
        """Sample images, uint8 [count 3 H W]; image i is a function of `seed` and i. `batch_size` images are
        sampled at a time, by default as many as the free memory allows. `sampling` is by default in the
        model's precision. `progress` is called with the number of positions sampled, and the total.

        Raises ValueError for a masked model, RuntimeError if there is not enough memory.
        """
        self.loaded.require_decoder("sample")
        with inference(self, "fp32"), report_memory(f"{count:,} images; sample fewer"):
            return sample_images(
                self.loaded.model,
                count,
                sampling=sampling or SamplingConfig(precision=self.precision),
                seed=seed,
                batch_size=batch_size,
                progress=progress,
            )

    @checked
    def complete(
        self,
        images: ArrayLike,
        rows: int | None = None,
        *,
        mask: MaskLike | None = None,
        each: Count = 1,
        sampling: SamplingConfig | None = None,
        order: Order | None = None,
        iterations: Count | None = None,
        seed: int = 0,
        batch_size: Count | None = None,
        progress: Progress | None = None,
    ) -> Completions:
        """Sample `each` completions of what a mask hides of every image, or of all but the first `rows` rows,
        by default half of them. `mask` is bool [H W], or what `isopix.generate.completion_mask` allows.

        An autoregressive model sees the pixels before each one only; a masked model fills in the most
        `confident` or `random` positions first, in 12 passes or `iterations`. `batch_size` are computed at a
        time. Raises ValueError for a model that can do neither, and for a mask that leaves nothing to do.
        """
        require_completion(self.loaded.model)
        self.loaded.require_decoder("complete")
        inputs = require_images(self.images(images))
        with inference(self, "fp32"), report_memory(f"{len(inputs) * each:,} images; sample fewer"):
            return complete_images(
                self.loaded.model,
                make_prompt(inputs, self.network.codec, rows=rows, mask=mask, each=each, seed=seed),
                sampling=sampling or SamplingConfig(precision=self.precision),
                passes=make_passes(order, iterations),
                seed=seed,
                batch_size=batch_size,
                progress=progress,
            )

    @checked
    def reconstruct(self, images: ArrayLike, *, seed: int = 0) -> Reconstruction:
        """Mask positions at random by `seed`, as in training, and predict their most likely codes. Raises
        ValueError for an autoregressive model.
        """
        require_masked_inputs(self.loaded.model)
        self.loaded.require_decoder("reconstruct")
        inputs = require_images(self.images(images)).to(self.network.device)
        with inference(self, self.precision):
            return reconstruct_images(
                self.loaded.model, inputs, generator=generator(seed, "hide"), modes=self.loaded.modes
            ).cpu()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that `isopix.load` reads; see `isopix.save`."""
        write_model(self.loaded, Path(folder))

    def publish(self, name: str, *, card: str = "", private: bool = False) -> str:
        """Upload what `save` writes, with a model card, to the Hugging Face Hub, and return its URL.

        Raises ValueError for an invalid name, RuntimeError if the upload fails.
        """
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            write_model(self.loaded, Path(folder))
            if card:
                (folder / "README.md").write_text(card, encoding="utf-8")
            return hub.upload(folder, name, private=private)

    def _layer_index(self, layer: int) -> int:
        """Return the layer, from 0. Raises ValueError if it does not exist."""
        depth = self.loaded.network.backbone.depth
        if not -depth - 1 <= layer <= depth:
            raise ValueError(f"layer {layer!r} does not exist; layers are 0 to {depth}")
        return layer % (depth + 1)

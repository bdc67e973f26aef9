"""PretrainedModel: a pre-trained network as a torch module, with the same methods for every kind of model."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isopix.api.inputs import (
    ArrayLike,
    as_images,
    as_mask,
    check_choice,
    check_integer,
    is_integer,
    require_images,
)
from isopix.core import device as devices
from isopix.core.config import to_dict
from isopix.core.device import Precision, autocast
from isopix.core.random import generator
from isopix.core.types import Images, Logits
from isopix.generate.reconstruct import Reconstruction, reconstruct_images
from isopix.generate.sample import SampledImages, SamplingConfig, complete_images, sample_images
from isopix.interop import hub
from isopix.model.backbone import FeatureKind, HiddenState
from isopix.model.network import Network, without_start_token
from isopix.model.pool import POOLS, Pool
from isopix.objectives.base import PretrainModel, nll_per_image
from isopix.probing.features import extract_features
from isopix.runs.load import LoadedRun, load_run
from isopix.storage import checkpoint
from isopix.storage.run_folder import reject_huggingface_model

BATCH_SIZE = 16


class PretrainedModel(nn.Module):
    """A pre-trained network: `model(images)` returns features, as a timm model with `num_classes=0` does.

    `layer`, 0 to `depth`, and `pool` choose the features of `forward`: those after the next block's first
    norm (`normed`, iGPT section 2.4), or the residual stream itself (`residual`); negative layers count from
    the end. The module starts in evaluation mode with gradients enabled; freeze it with `requires_grad_`.

    All methods take uint8 images [B 3 H W] or [B H W 3] of the model's resolution, arrays or tensors, or
    integer codes [B N] or [B N Q]. All but `forward`, `forward_features` and `forward_head` compute without
    gradients and return CPU tensors; random draws are a function of `seed` and the batch size. They raise
    ValueError for wrong arguments and for what this kind of model does not support.
    """

    def __init__(
        self,
        loaded: LoadedRun,
        *,
        layer: int = -1,
        pool: Pool = "mean",
        features: FeatureKind = "normed",
        precision: Precision = "fp32",
    ):
        super().__init__()
        check_choice("precision", precision, Precision)
        check_choice("pool", pool, Pool)
        check_choice("features", features, FeatureKind)
        self.loaded, self.precision = loaded, precision
        self.network: Network = loaded.network
        self.layer, self.pool, self.feature_kind = self._layer_index(layer), pool, features
        self.eval()

    def extra_repr(self) -> str:
        recipe, grid = self.loaded.recipe, self.network.codec.grid
        shape = f"depth={self.depth}, width={self.num_features}, grid={grid.rows}x{grid.cols}"
        return f"{recipe.name}, {recipe.objective.kind}, step={self.loaded.step}, {shape}, layer={self.layer}"

    @property
    def depth(self) -> int:
        """Number of blocks L; layers are 0 to L."""
        return self.network.backbone.depth

    @property
    def num_features(self) -> int:
        """Width D of the features."""
        return self.loaded.recipe.model.width

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
        with autocast(device, self.precision):
            *_, tokens = network.features(self.images(images).to(device), kind=self.feature_kind)
        return tokens

    def forward_head(self, tokens: HiddenState) -> Float[Tensor, "B D"]:
        """Pool the tokens that `forward_features` returns to one float32 vector per image."""
        return POOLS[self.pool](tokens, self.num_prefix_tokens)

    def forward(self, images: ArrayLike) -> Float[Tensor, "B D"]:
        """Return the pooled features of the chosen layer, float32 on the model's device; gradients flow."""
        return self.forward_head(self.forward_features(images))

    def logits(
        self, images: ArrayLike, *, mask: ArrayLike | None = None, batch_size: int = BATCH_SIZE
    ) -> Logits:
        """Return the logits [B N Q K] of every position; those of an autoregressive model at position i
        depend on the positions before i only.

        `mask`, bool [B N] or [B N Q] and True where masked, is for masked models.
        """
        if mask is not None and not self.loaded.recipe.objective.masks_input:
            raise ValueError("an autoregressive model takes no mask")
        check_integer("batch_size", batch_size)
        inputs, device, logits = require_images(self.images(images)), self.network.device, []
        masks = None if mask is None else as_mask(mask, inputs, self.network.codec)
        for start in range(0, len(inputs), batch_size):
            batch = slice(start, start + batch_size)
            masked = None if masks is None else masks[batch].to(device)
            with torch.no_grad(), autocast(device, self.precision):
                network_inputs = self.network.inputs_of(inputs[batch].to(device))
                logits.append(self.network(network_inputs, masked).cpu())
        return torch.cat(logits)

    def features(
        self,
        images: ArrayLike,
        layer: int | None = None,
        *,
        features: FeatureKind = "normed",
        pool: Pool = "mean",
        start_token: bool = True,
        batch_size: int | None = None,
    ) -> Float[Tensor, "B D"]:
        """Return the features that a linear probe reads at a layer 0..L (iGPT section 2.4), float32; the
        model's own `layer` is the default.

        `start_token=False` omits the start token of an autoregressive model, as the feature path of
        `transformers` does.
        """
        check_choice("features", features, FeatureKind)
        check_choice("pool", pool, Pool)
        if batch_size is not None:
            check_integer("batch_size", batch_size)
        network = self.network if start_token else without_start_token(self.network)
        settings: dict[str, Any] = {"features": features, "pool": pool, "batch_size": batch_size}
        network = network.truncated(self.layer if layer is None else self._layer_index(layer))
        inputs = self.images(images)
        return extract_features(network, inputs, precision=self.precision, **settings)[-1]

    def nll(self, images: ArrayLike, *, seed: int = 0, batch_size: int = BATCH_SIZE) -> Float[Tensor, " B"]:
        """Return the mean negative log-likelihood per predicted code of each image, in nats.

        An autoregressive model predicts all codes. A masked model predicts the codes masked at random by
        `seed`, as in training, so that its values are estimates.
        """
        check_integer("batch_size", batch_size)
        inputs = require_images(self.images(images)).to(self.network.device)
        batch = self._model.make_batch(inputs, generator(seed, "nll"))
        with torch.no_grad(), autocast(self.network.device, self.precision):
            chunks = batch.chunks(-(-len(inputs) // batch_size))
            return torch.cat([nll_per_image(self.network, chunk).cpu() for chunk in chunks])

    def sample(
        self, count: int, *, sampling: SamplingConfig | None = None, seed: int = 0, batch_size: int = 64
    ) -> SampledImages:
        """Sample images, uint8 [count 3 H W]; a function of `seed` and `batch_size`.

        Raises ValueError for a masked model.
        """
        check_integer("count", count)
        check_integer("batch_size", batch_size)
        draws, sampling = generator(seed, "sample"), sampling or SamplingConfig()
        sizes = [min(batch_size, count - start) for start in range(0, count, batch_size)]
        with autocast(self.network.device, self.precision):
            parts = [sample_images(self._model, size, sampling=sampling, generator=draws) for size in sizes]
        return torch.cat([part.cpu() for part in parts])

    def complete(
        self,
        images: ArrayLike,
        rows: int,
        *,
        each: int = 1,
        sampling: SamplingConfig | None = None,
        seed: int = 0,
    ) -> SampledImages:
        """Sample `each` completions of every image from its first `rows` rows, uint8 [B*each 3 H W], those of
        one image in succession. Raises ValueError for a masked model, and for rows that leave nothing.
        """
        check_integer("rows", rows)
        check_integer("each", each)
        inputs = require_images(self.images(images)).to(self.network.device)
        with autocast(self.network.device, self.precision):
            completed = complete_images(
                self._model,
                inputs,
                rows=rows,
                samples_per_prompt=each,
                sampling=sampling or SamplingConfig(),
                generator=generator(seed, "complete"),
            )
        return completed.cpu().clone()

    def reconstruct(self, images: ArrayLike, *, seed: int = 0) -> Reconstruction:
        """Mask positions at random by `seed`, as in training, and predict their most likely codes. Raises
        ValueError for an autoregressive model.
        """
        inputs = require_images(self.images(images)).to(self.network.device)
        with autocast(self.network.device, self.precision):
            result = reconstruct_images(self._model, inputs, generator=generator(seed, "reconstruct"))
        return result.cpu()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that `isopix.load` reads; see `isopix.save`."""
        save(self, folder)

    def publish(self, name: str, *, card: str = "", private: bool = False) -> str:
        """Upload what `save` writes, with a model card, to the Hugging Face Hub, and return its URL.

        Raises ValueError for an invalid name, RuntimeError if the upload fails.
        """
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            save(self, folder)
            if card:
                (folder / "README.md").write_text(card, encoding="utf-8")
            return hub.upload(folder, name, private=private)

    def _layer_index(self, layer: int) -> int:
        """Return the layer, from 0. Raises ValueError if it does not exist."""
        depth = self.loaded.network.backbone.depth
        if not is_integer(layer) or not -depth - 1 <= layer <= depth:
            raise ValueError(f"layer {layer!r} does not exist; layers are 0 to {depth}")
        return layer % (depth + 1)

    @property
    def _model(self) -> PretrainModel:
        return PretrainModel(self.network, self.loaded.recipe.objective)


def load(
    name_or_path: str | os.PathLike[str],
    *,
    layer: int = -1,
    pool: Pool = "mean",
    features: FeatureKind = "normed",
    device: str = "auto",
    precision: Precision = "fp32",
) -> PretrainedModel:
    """Load a model from a run folder, a folder written by `save`, or the Hugging Face Hub (`owner/name`).

    Raises ValueError if there is no such model or it is damaged, RuntimeError if the Hub cannot be reached.
    """
    check_choice("precision", precision, Precision)
    folder = hub.resolve_path(name_or_path)
    reject_huggingface_model(folder, name_or_path)
    loaded = load_run(folder, device=devices.select_device(device))
    return PretrainedModel(loaded, layer=layer, pool=pool, features=features, precision=precision)


def save(model: PretrainedModel, folder: str | os.PathLike[str]) -> None:
    """Write weights (safetensors), recipe, palette and a hash of each file to a folder that `load` reads.

    Raises ValueError if the folder is not empty, RuntimeError if the disk is full.
    """
    if not isinstance(model, PretrainedModel):
        raise ValueError(f"expected a model from isopix.load, got {type(model).__name__}")
    folder, loaded = Path(folder), model.loaded
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not empty; choose another folder")
    codec = loaded.network.codec.fingerprint()
    records = {
        "environment": devices.runtime_environment(loaded.network.device),
        **loaded.records,
        "recipe": to_dict(loaded.recipe),
        "state": {**loaded.records["state"], "step": loaded.step, "codec": codec},
    }
    checkpoint.save_checkpoint(folder, {"model": loaded.network.tensors()}, records)

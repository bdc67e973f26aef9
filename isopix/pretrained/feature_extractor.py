"""FeatureExtractor: a pre-trained network as a torch module that returns features of images."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isopix.core.choices import Count
from isopix.core.device import Precision, autocast
from isopix.core.types import Images
from isopix.core.verb import checked
from isopix.model.backbone import FeatureKind, HiddenState
from isopix.model.network import Network, evaluation_mode, without_start_token
from isopix.model.positions import Pool, pool_tokens, pooled_width
from isopix.pretrained.inputs import ImagesLike, as_images, require_images
from isopix.probing.features import extract_features
from isopix.runs.load import LoadedRun


class FeatureExtractor(nn.Module):
    """A network that returns features, as a timm model with `num_classes=0` does; see `PretrainedModel`."""

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
        self.class_head = loaded.class_head
        self.layer, self.feature_kind = self._layer_indices([layer])[0], features
        self.pool: Pool = pool or loaded.recipe.pool
        self.eval()

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
        return pooled_width(self.pool, self.network.backbone.grid, self.loaded.recipe.model.width)

    @property
    def num_prefix_tokens(self) -> int:
        """Number of tokens before the positions: 1 with a class token, else 0."""
        return self.network.backbone.num_prefix_tokens

    @checked
    def preprocess(self, images: ImagesLike) -> Images:
        """Return images as the model reads them, uint8 [B 3 H W]; large JPEG files are decoded smaller."""
        return as_images(images, self.loaded)

    def forward_features(self, images: ImagesLike) -> HiddenState:
        """Return the tokens of the chosen layer, [B N D] with any class token first; gradients flow."""
        [tokens] = self.forward_intermediates(images, [self.layer])
        return tokens

    @checked
    def forward_intermediates(
        self, images: ImagesLike, layers: Sequence[int] | None = None
    ) -> list[HiddenState]:
        """Return the tokens [B N D] of these layers of 0 to L, any class token first; gradients flow."""
        chosen = self._layer_indices(layers)
        given = require_images(self.preprocess(images)).to(self.network.device)
        with autocast(given.device, self.precision):
            inputs = self.network.inputs_of(given)
            return self.network.backbone.forward_intermediates(chosen, inputs, kind=self.feature_kind)

    def forward_head(self, tokens: HiddenState) -> Float[Tensor, "B _"]:
        """Pool the tokens that `forward_features` returns to one float32 vector per image."""
        return pool_tokens(tokens, self.pool, self.network.backbone.grid, self.num_prefix_tokens)

    def forward(self, images: ImagesLike) -> Float[Tensor, "B _"]:
        """Return the pooled features of the chosen layer, float32 on the model's device; gradients flow."""
        return self.forward_head(self.forward_features(images))

    @checked
    def features(
        self,
        images: ImagesLike,
        layer: int | None = None,
        *,
        features: FeatureKind | None = None,
        pool: Pool | None = None,
        start_token: bool = True,
        batch_size: Count | None = None,
    ) -> Float[Tensor, "B _"]:
        """Return the features that a linear probe reads at a layer 0..L (iGPT section 2.4), float32.

        `start_token=False` omits an autoregressive model's start token, as `transformers` does.
        """
        layers = [self.layer if layer is None else layer]
        return self.layer_features(
            images, layers, features=features, pool=pool, start_token=start_token, batch_size=batch_size
        )[0]

    @checked
    def layer_features(
        self,
        images: ImagesLike,
        layers: Sequence[int] | None = None,
        *,
        features: FeatureKind | None = None,
        pool: Pool | None = None,
        start_token: bool = True,
        batch_size: Count | None = None,
    ) -> Float[Tensor, "layers B _"]:
        """Return the `features` of each of these layers, by default of all, 0 to L, from one pass."""
        chosen = self._layer_indices(layers)
        network = self.network if start_token else without_start_token(self.network)
        with evaluation_mode(network):
            found = extract_features(
                network.truncated(max(chosen)),
                self.preprocess(images),
                features=features or self.feature_kind,
                pool=pool or self.pool,
                batch_size=batch_size,
                precision=self.precision,
            )
        return found if chosen == list(range(len(found))) else found[chosen]

    def _layer_indices(self, layers: Sequence[int] | None) -> list[int]:
        depth = self.depth
        chosen = range(depth + 1) if layers is None else layers
        if wrong := [layer for layer in chosen if not -depth - 1 <= layer <= depth]:
            raise ValueError(f"layer {wrong[0]} does not exist; layers are 0 to {depth}")
        if not chosen:
            raise ValueError(f"layers is empty; layers are 0 to {depth}")
        return [layer % (depth + 1) for layer in chosen]


@contextmanager
def inference(model: nn.Module, precision: Precision) -> Iterator[None]:
    """Compute in evaluation mode, without gradients and in this precision, on the device of the model."""
    device = next(model.parameters()).device
    with evaluation_mode(model), torch.no_grad(), autocast(device, precision):
        yield

"""Features: a pre-trained model as a scikit-learn transformer from images to features."""

import os
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from numpy.typing import NDArray
from PIL import Image
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from isopix.core.device import DeviceLike
from isopix.model.backbone import FeatureKind
from isopix.model.positions import Pool
from isopix.pretrained.model import PretrainedModel
from isopix.pretrained.run import load


class Features(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transform images to the pooled features of one layer of a pre-trained model, as a linear probe reads.

    `model` is what `isopix.load` takes, or its result; `layer`, `pool` and `features` are by default those
    that it was loaded with. Images are a list of files or of PIL images, or uint8 [B 3 H W] or [B H W 3], of
    any size; or of the model's size and flattened to [B H*W*3], of any dtype with integers from 0 to 255. A
    fitted transformer is pickled with its weights; the plugins of its parts are to be loaded before it.

    Attributes: `model_`, the loaded model; `n_features_in_`, H*W*3.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | PretrainedModel,
        *,
        layer: int | None = None,
        pool: Pool | None = None,
        features: FeatureKind | None = None,
        batch_size: int | None = None,
        device: DeviceLike = "auto",
    ):
        self.model, self.layer, self.pool = model, layer, pool
        self.features, self.batch_size, self.device = features, batch_size, device

    def fit(self, X: Any, y: Any = None) -> "Features":  # noqa: N803  # the names of scikit-learn
        """Load the model and check the images; nothing is learned. Raises ValueError for wrong arguments."""
        given = self.model
        model = given if isinstance(given, PretrainedModel) else load(given, device=self.device)
        self._n_features_out = self._transform(model, self._images(X, model, reset=True)[:1]).shape[1]
        self.model_ = model
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "B D"]:  # noqa: N803
        """Return the features, float32 [B D]. Raises ValueError for other images than `fit` accepts."""
        check_is_fitted(self)
        return self._transform(self.model_, self._images(X, self.model_, reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _transform(self, model: PretrainedModel, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            return model.features(
                images, self.layer, features=self.features, pool=self.pool, batch_size=self.batch_size
            ).numpy()

    def _images(self, X: Any, model: PretrainedModel, *, reset: bool) -> NDArray[np.uint8]:  # noqa: N803
        height, width = model.network.codec.image_size
        is_list = isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1
        if is_list and isinstance(next(iter(X), None), str | bytes | os.PathLike | Image.Image):
            X = rearrange(model.preprocess(list(X)).numpy(), "b c h w -> b (h w c)")  # noqa: N806
        elif getattr(X, "ndim", None) == 4:
            X = rearrange(model.preprocess(X).cpu().numpy(), "b c h w -> b (h w c)")  # noqa: N806
        values = validate_data(self, X, reset=reset)
        if values.dtype != np.uint8 and not ((values >= 0) & (values <= 255) & (values == values // 1)).all():
            problem = "Negative values in data" if (values < 0).any() else "Invalid values in data"
            raise ValueError(f"{problem}: pixels must be integers from 0 to 255")
        if values.shape[1] != height * width * 3:
            given = f"n_samples={values.shape[0]}, n_features={values.shape[1]}"
            raise ValueError(f"X has {given}; images of {height} x {width} x 3 need {height * width * 3}")
        return rearrange(values.astype(np.uint8), "b (h w c) -> b h w c", h=height, w=width)

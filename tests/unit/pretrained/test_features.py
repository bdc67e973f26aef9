"""Features is a transformer as scikit-learn expects one, and gives the features of the model."""

import pickle
from collections.abc import Callable
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import pytest
from einops import rearrange
from sklearn.utils.estimator_checks import parametrize_with_checks

import isopix
from isopix.core.overrides import override
from isopix.pretrained.model import PretrainedModel
from isopix.recipes import igpt
from tests.registry import restored_registry
from tests.unit.data.refusal import refusal
from tests.unit.pretrained.cases import model


def one_pixel() -> PretrainedModel:
    """A model of images of one pixel: flattened they have 3 columns, as most of scikit-learn's data."""
    return model(override(igpt.digits(), {"data.rows": 1, "data.cols": 1, "depth": 1, "width": 8}))


class OnIntegers(isopix.Features):
    """Tells scikit-learn to make its data of non-negative integers, as pixels are."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # noqa: N803
        return "Features"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


# Checks that feed so many columns; an image of height x width pixels has 3 x height x width.
COLUMNS = {
    "check_estimators_overwrite_params": 2,
    "check_estimators_fit_returns_self": 2,
    "check_readonly_memmap_input": 2,
    "check_fit_idempotent": 2,
    "check_fit_check_is_fitted": 2,
    "check_n_features_in": 2,
    "check_n_features_in_after_fitting": 4,
    "check_estimators_dtypes": 5,
    "check_dtype_object": 10,
}
REASONS = {
    check: f"it feeds {columns} columns, which no image has: their number is a multiple of 3"
    for check, columns in COLUMNS.items()
}


@pytest.mark.usefixtures("unchecked")
@parametrize_with_checks(
    [OnIntegers(one_pixel(), device="cpu")], expected_failed_checks=lambda estimator: REASONS
)
def test_it_passes_the_checks_of_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def digits() -> dict[str, np.ndarray]:
    """Images of 8 x 8 pixels in every accepted form."""
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    flat = images.reshape(6, -1)
    return {
        "[B H W 3]": images,
        "[B 3 H W]": rearrange(images, "b h w c -> b c h w"),
        "flattened": flat,
        "float64": flat.astype(np.float64),
    }


@pytest.mark.parametrize("form", ["[B H W 3]", "[B 3 H W]", "flattened", "float64"])
@pytest.mark.parametrize("settings", [{}, {"layer": 0, "pool": "grid2", "features": "residual"}])
def test_it_gives_the_features_of_the_model(
    pristine: Path, digits: dict[str, np.ndarray], form: str, settings: dict[str, Any]
) -> None:
    transformer = isopix.Features(pristine / "ar", device="cpu", **settings)
    found = transformer.fit_transform(digits[form])
    assert len(transformer.get_feature_names_out()) == found.shape[1]
    own = isopix.load(pristine / "ar", device="cpu", **settings)
    expected = own(digits["[B H W 3]"]).detach().numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.array_equal(isopix.Features(own).fit_transform(digits[form]), found)
    assert not np.array_equal(isopix.Features(own, pool="max").fit_transform(digits[form]), found)


EXAMPLE = Path(__file__).parents[3] / "examples/extend/gated_mlp.py"


def test_pickled_with_parts_of_a_plugin_it_is_read_once_that_is_loaded(
    tmp_path: Path, digits: dict[str, np.ndarray]
) -> None:
    plugin, images = tmp_path / EXAMPLE.name, digits["flattened"]
    copy(EXAMPLE, plugin)
    settings = ["block.mlp.kind=gated", "steps=1", "depth=1", "width=16", "batch_size=4", "data.limit=20"]
    with restored_registry():
        isopix.load_plugin(plugin)
        run = isopix.pretrain("igpt.digits", *settings, out=tmp_path / "run", device="cpu")
        features = isopix.Features(run, device="cpu").fit(images)
        expected, stored = features.transform(images), pickle.dumps(features)
    with restored_registry():
        isopix.load_plugin(EXAMPLE)  # the same file elsewhere
        assert np.array_equal(pickle.loads(stored).transform(images), expected)


REFUSED: dict[str, tuple[Any, str]] = {
    "too few columns": (np.zeros((2, 9), np.uint8), "images of 8 x 8 x 3 need 192"),
    "too bright": (np.full((2, 192), 256), "pixels must be integers from 0 to 255"),
    "negative": (np.full((2, 192), -1), "Negative values in data"),
}


@pytest.mark.parametrize(("images", "line"), REFUSED.values(), ids=list(REFUSED))
def test_what_are_no_images_of_the_model_is_refused(pristine: Path, images: Any, line: str) -> None:
    assert line in refusal(isopix.Features(pristine / "ar", device="cpu").fit, images)

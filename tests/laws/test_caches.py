"""Law of caches: one in use gives what an empty one would, for every setting of what it keeps."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.load import load_dataset
from isopix.data.splits import Split
from isopix.probing.config import ProbeConfig
from isopix.probing.features import FeatureSource, read_splits
from isopix.recipes.recipe import Recipe
from isopix.runs.load import load_run
from isopix.runs.pretrain import fit_codec
from isopix.storage import provenance
from tests.smoke.conftest import add_photos
from tests.trained import CPU

Cached = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cached:
    """Return a function that asserts that a cache in use and an empty one give the same, and returns it."""
    caches = iter(range(1000))

    def compared(read: Callable[[], Any]) -> Any:
        found = []
        for name in ("used", f"empty-{next(caches)}"):
            monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path / name))
            found.append(read())
        assert found[0] == found[1]
        return found[0]

    return compared


def variants(source: Path) -> Iterator[DataConfig]:
    base = DataConfig(source=str(source), rows=8, cols=8)
    for changes in (
        *({}, {"rows": 6}, {"cols": 6}, {"crop": "random"}, {"crop": "random", "seed": 1}),
        *({"crop": "squash"}, {"crop": "resized_center"}, {"crop_fraction": 0.5}, {"resample": "bicubic"}),
        *({"resample": "bilinear"}, {"holdout": 0.2}, {"train_on_validation": True}, {"limit": 10}),
        *({"limit": 10, "seed": 1}, {"seed": 1}, {"labels_per_class": 4}),
        {"labels_per_class": 4, "subset": 1},
    ):
        yield replace(base, **changes)  # type: ignore[arg-type]


def contents(data: ImageDataset) -> list[Any]:
    splits = [data.train, data.validation, data.test]
    return [
        (each.images[:].tolist(), None if each.labels is None else each.labels.tolist()) for each in splits
    ]


@pytest.mark.usefixtures("unchecked")
def test_images_are_those_of_the_settings_and_have_a_fingerprint_of_their_own(
    same: Cached, tmp_path: Path
) -> None:
    configs = list(variants(add_photos(tmp_path) / "photos"))
    found = [same(lambda config=config: contents(load_dataset(config))) for config in configs]
    prints = [load_dataset(config).fingerprint for config in configs]
    assert len(set(prints)) == len(set(map(str, found))) == len(configs)


@pytest.mark.usefixtures("unchecked")
def test_codecs_are_those_of_the_images_and_the_settings(
    same: Cached, pristine: Path, tmp_path: Path
) -> None:
    source = add_photos(tmp_path) / "photos"
    recipe = load_run(pristine / "ar", device=CPU).recipe

    def fitted(recipe: Recipe) -> Any:
        return fit_codec(recipe, load_dataset(recipe.data)).fingerprint()

    images = [recipe.updated(data=each) for each in list(variants(source))[:12:3]]
    others = [images[0].updated(seed=1), images[0].updated(codec=replace(recipe.model.codec, num_colors=5))]
    found = [same(lambda recipe=recipe: fitted(recipe)) for recipe in [*images, *others]]
    assert len(set(found)) == len(found)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("how", ["keep", "stream"])
def test_features_are_those_of_the_images_the_network_and_the_settings(
    how: str, same: Cached, pristine: Path, tmp_path: Path
) -> None:
    own = [replace(each, limit=10) for each in variants(add_photos(tmp_path) / "photos")]
    ar, bert = (load_run(pristine / name, device=CPU) for name in ("ar", "bert"))
    data = load_dataset(own[0])
    other = Split(255 - data.test.images[:], data.test.labels)
    fitting = [each for each in own if (each.rows, each.cols) == (8, 8) and not each.train_on_validation]
    images = [*map(load_dataset, fitting), replace(data, test=other)]
    layer, pool = ProbeConfig(layer=1), ProbeConfig(pool="grid4")
    masked = [ProbeConfig(mask_ensemble=2, seed=seed) for seed in (0, 1)]
    configs = [layer, pool, ProbeConfig(features="residual"), ProbeConfig(start_token=False)]
    cases = [(ar, each, ProbeConfig(), "fp32") for each in images]
    cases += [(ar, data, each, "fp32") for each in configs] + [(ar, data, ProbeConfig(), "bf16")]
    cases += [(bert, data, each, "fp32") for each in (ProbeConfig(), *masked, ProbeConfig(mask_ensemble=3))]
    for loaded, images_, config, precision in cases:
        for name in ("trained", "untrained"):
            source = loaded.feature_sources(images_, config, precision)[name]
            same(lambda source=source, data=images_: features(source, data, how))


def features(source: FeatureSource, data: ImageDataset, how: str) -> Any:
    found = read_splits("features", source, data, **{how: True})
    parts = (found.train, found.validation, found.test, *found.extra_views)
    return [torch.as_tensor(each.features).numpy().tobytes() for each in parts]


def test_a_file_that_was_rewritten_is_read_again_although_its_size_and_modification_time_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "TICK", -(10**12))  # all files are old
    file, index = tmp_path / "a", tmp_path / "index"
    found = []
    for content in ("one", "two"):
        file.write_text(content)
        os.utime(file, ns=(10**18, 10**18))
        found.append(provenance.hash_tree({"a": file}, index))
    assert found[0] != found[1]

"""Features are cached and found again where nothing has changed; masks are those of training."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.core.types import Images
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.model.network import Network
from isopix.probing import features
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_extraction import NetworkFeatures, PixelFeatures, read_cached_splits, read_splits
from isopix.probing.feature_splits import Features, FeatureSplits
from isopix.probing.features import draw_masks
from isopix.probing.results import ProbeReport
from isopix.probing.sgd import SgdProbe
from isopix.recipes import registry
from isopix.runs.load import LoadedRun
from isopix.runs.probe import feature_settings, probe_run
from isopix.runs.state import State

SETTINGS = ["depth=2", "width=16"]
NAMES = ("igpt.digits", "igpt.digits_bert")
AR, BERT = (registry.resolve(name, assignments=SETTINGS).recipe for name in NAMES)
QUICK = ProbeConfig(l2_grid=(0.1,), l2_extra=(), num_resamples=5)
SGD = replace(QUICK, method=SgdProbe(iterations=3, batch_size=16, lr_grid=(1.0, 0.1)))


@pytest.fixture(scope="module")
def data() -> ImageDataset:
    return load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=60))


def network(recipe, scale: float = 0.3) -> LoadedRun:
    grays = torch.linspace(0, 255, 17)[:, None].expand(17, 3).contiguous()
    built = recipe.build(recipe.model.codec.build(recipe.grid, grays))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=scale)
    return LoadedRun(recipe, built.eval(), State(step=7))


def source(config: ProbeConfig, recipe=BERT, scale: float = 0.3) -> NetworkFeatures:
    return NetworkFeatures(network(recipe, scale).model, config, "fp32", feature_settings(recipe))


def read(config: ProbeConfig, data: ImageDataset, recipe=BERT) -> FeatureSplits:
    return read_splits(source(config, recipe), data, lambda count: None)


def report(
    recipe, data: ImageDataset, config: ProbeConfig, note: Callable[[str], None] = print
) -> ProbeReport:
    return probe_run(network(recipe), data, precision="fp32", config=config, note=note)


def test_only_a_mask_ensemble_masks_and_every_image_has_its_own_mask(
    data: ImageDataset,
) -> None:
    plain, masked = read(QUICK, data), read(replace(QUICK, mask_ensemble=3), data)
    assert (len(plain.extra_views), len(masked.extra_views)) == (0, 2)
    for one, other in zip((plain.train, *plain.test_views), (masked.train, *masked.test_views), strict=False):
        changed = (one.features != other.features).any(2)[-1]
        assert changed.double().mean() > 0.9
    tests = [split.features for split in masked.test_views]
    assert not any(torch.equal(one, other) for one, other in zip(tests, [*tests[1:], tests[0]], strict=True))


def test_masks_are_a_function_of_the_seed_and_the_first_stays_the_first(
    data: ImageDataset,
) -> None:
    one, three = read(replace(QUICK, mask_ensemble=1), data), read(replace(QUICK, mask_ensemble=3), data)
    assert torch.equal(one.test.features, three.test.features)
    assert torch.equal(one.train.features, three.train.features)
    other = read(replace(QUICK, mask_ensemble=1, seed=1), data)
    assert not torch.equal(one.train.features, other.train.features)


def test_masks_are_those_of_the_objective(data: ImageDataset) -> None:
    features = source(replace(QUICK, mask_ensemble=1))
    masks = draw_masks(features.model, data.train.images, seed=0, purpose="any")
    assert abs(masks.double().mean() - 0.15) < 0.02
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == len(masks)


def test_one_layer_is_that_of_all(data: ImageDataset) -> None:
    whole = read(QUICK, data)
    for layer in range(3):
        alone = read(replace(QUICK, layer=layer), data)
        assert alone.first_layer == layer
        assert torch.equal(alone.test.features[0], whole.test.features[layer])


def test_the_report_of_one_layer_has_its_number(data: ImageDataset) -> None:
    found = report(BERT, data, replace(QUICK, layer=2))
    assert [score.layer for score in found.network.layers] == [2]
    assert found.network.layers == report(BERT, data, QUICK).network.layers[2:]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            replace(QUICK, mask_ensemble=5),
            r"^mask_ensemble is 5, but an autoregressive model masks nothing",
        ),
        (replace(QUICK, layer=3), r"^layer 3 does not exist; layers are 0 to 2$"),
    ],
)
def test_what_the_network_does_not_have_is_refused(
    data: ImageDataset, config: ProbeConfig, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        report(AR, data, config)


def test_a_second_probe_finds_the_features_and_notes_it(data: ImageDataset, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    config, notes = replace(SGD, mask_ensemble=2), list[str]()
    first, second = (report(BERT, data, config, notes.append) for _ in range(2))
    assert first == second
    assert [note.split()[:4] for note in notes[:4]] == [
        ["trained:", "features", "written", "to"],
        ["untrained:", "features", "written", "to"],
        ["raw", "pixels:", "features", "written"],
        ["raw", "pixels,", "PCA:", "features"],
    ]
    assert all("read from" in note for note in notes[4:])
    assert len(list((tmp_path / "features").iterdir())) == 4


def test_the_cache_folder_depends_on_what_features_depend_on(
    data: ImageDataset, monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    sources = [
        PixelFeatures(),
        *(
            source(replace(SGD, **changed))
            for changed in (
                {},
                {"features": "residual"},
                {"pool": "max"},
                {"mask_ensemble": 1},
                {"mask_ensemble": 2},
                {"layer": 1},
            )
        ),
        source(replace(SGD, mask_ensemble=1, seed=1)),
        source(SGD, scale=0.2),
        source(SGD, AR),
        source(replace(SGD, start_token=False), AR),
        replace(source(SGD), precision="bf16"),
    ]
    assert len({each.identity() for each in sources}) == len(sources)
    assert (
        source(SGD).identity() == source(replace(SGD, seed=3, refit_on_validation=True, concat=5)).identity()
    )
    read_cached_splits(PixelFeatures(), data, lambda count: None, print)
    few = replace(data, test=data.test.sample(10))
    read_cached_splits(PixelFeatures(), few, lambda count: None, print)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_cached_features_are_those_that_were_computed(data: ImageDataset, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    config, done = replace(SGD, mask_ensemble=2), list[int]()
    kept = read_cached_splits(source(config), data, done.append, print)
    plain = read(config, data)
    assert kept.stored_scale is not None
    pairs = zip((kept.train, *kept.test_views), (plain.train, *plain.test_views), strict=True)
    for one, other in pairs:
        whole = one.features.float() * kept.stored_scale.scale + kept.stored_scale.center
        torch.testing.assert_close(whole, other.features, atol=2e-3, rtol=1e-3)
        assert torch.equal(one.labels, other.labels)
    assert done[-1] == len(data.train) + len(data.validation) + 2 * len(data.test)


def test_features_of_the_untrained_network_are_computed_once(
    data: ImageDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    counts, extract = list[int](), features.iter_features

    def counted(network: Network, images: Images, **options: object) -> Iterator[Features]:
        counts.append(len(images))
        return extract(network, images, **options)

    monkeypatch.setattr("isopix.probing.feature_extraction.iter_features", counted)
    first = report(AR, data, QUICK)
    assert len(counts) == 6  # three splits of two networks
    assert report(AR, data, QUICK).to_dict() == first.to_dict()
    assert len(counts) == 9
    [folder] = (tmp_path / "features").iterdir()
    (folder / "test-0.npy").write_bytes(b"")
    assert report(AR, data, QUICK).to_dict() == first.to_dict()
    assert len(counts) == 15
    report(AR.updated(seed=1), data, QUICK)
    assert len(counts) == 21
    monkeypatch.setattr("isopix.probing.feature_cache.MAX_KEPT", 0)
    report(AR.updated(seed=2), data, QUICK)
    assert len(list((tmp_path / "features").iterdir())) == 2

"""Features are kept, and found again where nothing has changed; masks are those of training."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from isopix.data.dataset import Data, ImageSet, load
from isopix.probe.feature_splits import Splits
from isopix.probe.results import Evidence, Protocol
from isopix.probe.sgd import Sgd
from isopix.recipes import registry
from isopix.runs import feature_extraction, probe
from isopix.runs.feature_extraction import Pixels, States, splits, stored_splits
from isopix.runs.load import Loaded

SETTINGS = ["depth=2", "width=16"]
NAMES = ("igpt.digits", "igpt.digits_bert")
AR, BERT = (registry.resolve(name, assignments=SETTINGS).recipe for name in NAMES)
QUICK = Protocol(strengths=(0.1,), weaker=(), resamples=5)
SGD = replace(QUICK, method=Sgd(iterations=3, batch=16, rates=(1.0, 0.1)))


@pytest.fixture(scope="module")
def data() -> ImageSet:
    return load(Data(source="digits", rows=8, cols=8, limit=60))


def network(recipe, scale: float = 0.3) -> Loaded:
    greys = torch.linspace(0, 255, 17)[:, None].expand(17, 3).contiguous()
    built = recipe.build(recipe.codec.build(recipe.grid, greys))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=scale)
    return Loaded(recipe, built.eval(), 7, [], {})


def states(protocol: Protocol, recipe=BERT, scale: float = 0.3) -> States:
    return States(network(recipe, scale).network, recipe, protocol, "fp32")


def read(protocol: Protocol, data: ImageSet, recipe=BERT) -> Splits:
    return splits(states(protocol, recipe), data, lambda count: None)


def evidence(recipe, data: ImageSet, protocol: Protocol, note: Callable[[str], None] = print) -> Evidence:
    return probe.evidence(network(recipe), data, precision="fp32", protocol=protocol, note=note)


def test_without_masks_nothing_is_hidden_and_with_them_every_image_has_its_own(data: ImageSet) -> None:
    plain, masked = read(QUICK, data), read(replace(QUICK, masks=3), data)
    assert (len(plain.again), len(masked.again)) == (0, 2)
    for one, other in zip((plain.train, *plain.readings), (masked.train, *masked.readings), strict=False):
        changed = (one.features != other.features).any(2)[-1]
        assert changed.double().mean() > 0.9
    tests = [split.features for split in masked.readings]
    assert not any(torch.equal(one, other) for one, other in zip(tests, [*tests[1:], tests[0]], strict=True))


def test_masks_are_a_function_of_the_seed_and_the_first_stays_the_first(
    data: ImageSet,
) -> None:
    one, three = read(replace(QUICK, masks=1), data), read(replace(QUICK, masks=3), data)
    assert torch.equal(one.test.features, three.test.features)
    assert torch.equal(one.train.features, three.train.features)
    other = read(replace(QUICK, masks=1, seed=1), data)
    assert not torch.equal(one.train.features, other.train.features)


def test_masks_hide_as_the_objective_does(data: ImageSet) -> None:
    source = states(replace(QUICK, masks=1))
    hidden = feature_extraction.draw_masks(source.network, data.train.images, seed=0, purpose="any")
    assert abs(hidden.double().mean() - 0.15) < 0.02
    assert len({tuple(mask.flatten().tolist()) for mask in hidden}) == len(hidden)


def test_one_layer_is_that_of_all(data: ImageSet) -> None:
    whole = read(QUICK, data)
    for layer in range(3):
        alone = read(replace(QUICK, layers=layer), data)
        assert alone.first == layer
        assert torch.equal(alone.test.features[0], whole.test.features[layer])


def test_the_evidence_of_one_layer_tells_its_number(data: ImageSet) -> None:
    found = evidence(BERT, data, replace(QUICK, layers=2))
    assert [score.layer for score in found.network.layers] == [2]
    assert found.network.layers == evidence(BERT, data, QUICK).network.layers[2:]


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (replace(QUICK, masks=5), r"^masks is 5, but an autoregressive model hides nothing; allowed: 0$"),
        (replace(QUICK, layers=3), r"^layer 3 is not there; layers are 0 to 2$"),
    ],
)
def test_what_the_network_has_not_is_refused(data: ImageSet, protocol: Protocol, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evidence(AR, data, protocol)


def test_a_second_probe_finds_the_features_and_says_so(data: ImageSet, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    protocol, notes = replace(SGD, masks=2), list[str]()
    first, second = (evidence(BERT, data, protocol, notes.append) for _ in range(2))
    assert first == second
    assert [note.split()[:4] for note in notes[:3]] == [
        ["trained:", "features", "kept", "in"],
        ["raw", "pixels:", "features", "kept"],
        ["untrained:", "features", "kept", "in"],
    ]
    assert all("read from" in note for note in notes[3:])
    assert len(list((tmp_path / "features").iterdir())) == 3


def test_features_depend_on_all_that_their_folder_is_named_by(data: ImageSet, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    sources = [
        Pixels(),
        *(
            states(replace(SGD, **changed))
            for changed in ({}, {"stream": "h"}, {"pool": "max"}, {"masks": 1}, {"masks": 2}, {"layers": 1})
        ),
        states(replace(SGD, masks=1, seed=1)),
        states(SGD, scale=0.2),
        states(SGD, AR),
        states(replace(SGD, reading="huggingface"), AR),
        replace(states(SGD), precision="bf16"),
    ]
    assert len({source.identity() for source in sources}) == len(sources)
    assert states(SGD).identity() == states(replace(SGD, seed=3, fold_back=True, layers="best5")).identity()
    stored_splits(Pixels(), data, lambda count: None, print)
    few = replace(data, test=data.test.first(10))
    stored_splits(Pixels(), few, lambda count: None, print)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_what_is_kept_is_what_was_read(data: ImageSet, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    protocol, done = replace(SGD, masks=2), list[int]()
    kept = stored_splits(states(protocol), data, done.append, print)
    plain = read(protocol, data)
    assert kept.frame is not None
    pairs = zip((kept.train, *kept.readings), (plain.train, *plain.readings), strict=True)
    for one, other in pairs:
        whole = one.features.float() * kept.frame.spread + kept.frame.centre
        torch.testing.assert_close(whole, other.features, atol=2e-3, rtol=1e-3)
        assert torch.equal(one.labels, other.labels)
    assert done[-1] == len(data.train) + len(data.validation) + 2 * len(data.test)

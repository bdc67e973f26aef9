"""A query finds the position that has the class, which a mean over positions dilutes."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from isopix.core.random import generator
from isopix.probing.attentive import AttentiveProbe
from isopix.probing.probe import evaluate_probe
from isopix.probing.splits import FeatureSplit, FeatureSplits
from tests.unit.probing.cases import CONFIG, CPU

POSITIONS, CLASSES = 16, 4


def marked(count: int, seed: int) -> FeatureSplit:
    """A random class at every position, and a mark at the one that counts."""
    random = generator(seed, "marked")
    classes = torch.randint(CLASSES, (count, POSITIONS), generator=random)
    place = torch.randint(POSITIONS, (count,), generator=random)
    mark = F.one_hot(place, POSITIONS)[..., None]
    tokens = torch.cat([F.one_hot(classes, CLASSES), mark], 2).float()
    return FeatureSplit(tokens.flatten(1)[None], classes[torch.arange(count), place])


@pytest.mark.parametrize("joined", [False, True])
def test_a_query_attends_to_the_position_that_counts(joined: bool) -> None:
    """Also to that of two layers, one of noise; without positions nothing better than a third is found."""
    splits = FeatureSplits(marked(1000, 0), marked(200, 1), marked(300, 2), positions=POSITIONS)
    if joined:
        noise = splits.map(lambda split: split.map(lambda x: torch.cat([torch.zeros_like(x), x])))
        splits = noise.concat_layers()
    method = AttentiveProbe(heads=1, iterations=300, lr_grid=(0.1, 0.03))
    attentive, plain = (
        evaluate_probe(each, method, CONFIG, device=CPU).result.best.test_accuracy
        for each in (splits, replace(splits, positions=1))
    )
    assert attentive > 0.95
    assert plain < 0.5

"""Three real layers, scanned digits through a small untrained transformer, and clusters of points."""

from functools import cache

import torch
from jaxtyping import Float
from sklearn.datasets import load_digits
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Grid, Images, Labels
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.network import Network
from isopix.model.spec import ModelSpec
from isopix.objectives.objectives import Masked
from isopix.probing.attentive import AttentiveProbe
from isopix.probing.config import ProbeConfig
from isopix.probing.methods import KnnProbe, LbfgsProbe, RidgeProbe
from isopix.probing.minibatch import AdamProbe, SgdProbe
from isopix.probing.probe import ProbeMethod, evaluate_probe
from isopix.probing.results import LayerScores
from isopix.probing.splits import FeatureSplit, FeatureSplits, Standardizer

WIDTH, DEPTH = 32, 2
CPU = torch.device("cpu")
METHOD = LbfgsProbe(l2_grid=(1e-3, 1e-2, 1e-1))
METHODS = (
    METHOD,
    RidgeProbe(),
    KnnProbe(),
    SgdProbe(iterations=100),
    AdamProbe(epochs=20, patience=2, tolerance=0.01),
    AttentiveProbe(iterations=100, lr_grid=(0.01,)),
)
CONFIG = ProbeConfig()
STEP = 15  # between two of the scans' 17 gray levels, in an image of 0..255


class Grays(Codec):
    """The 17 gray levels of scikit-learn's digits."""

    grid, num_codes, vocab_size, patch_size = Grid(8, 8), 1, 17, 1

    def encode(self, images: Images) -> Codes:
        return (images[:, :1].long() // STEP).flatten(2).mT

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        raise NotImplementedError

    def fingerprint(self) -> str:
        return "grays"


@cache
def digits() -> tuple[Images, Labels]:
    """All 1,797 scans as color images, and which digit each is."""
    data = load_digits()
    gray = torch.from_numpy(data.images).to(torch.uint8) * STEP
    return gray[:, None].expand(-1, 3, -1, -1).contiguous(), torch.from_numpy(data.target)


def network() -> Network:
    """An untrained network in which content and position both matter."""
    spec = ModelSpec(block=TransformerSpec(heads=2), depth=DEPTH, width=WIDTH)
    return spec.build(Grays(), Masked(), torch.Generator().manual_seed(0))


def clusters(
    images: int, width: int, classes: int, *, spread: float = 1.0
) -> tuple[Float[Tensor, "1 B D"], Labels]:
    """Points around one center per class, as one layer of features."""
    draw = torch.Generator().manual_seed(images + width)
    labels = torch.arange(images) % classes
    centers = torch.randn(classes, width, generator=draw)
    return (centers[labels] + spread * torch.randn(images, width, generator=draw))[None], labels


def cut(
    features: Float[Tensor, "F B D"], labels: Labels, train: int = 120, validation: int = 60
) -> FeatureSplits:
    """The first images to train on, the next to validate on, the rest to test on."""
    parts = (slice(0, train), slice(train, train + validation), slice(train + validation, None))
    return FeatureSplits(*(FeatureSplit(features[:, part], labels[part]) for part in parts))


def easy() -> FeatureSplits:
    """Three classes that a linear classifier mostly separates."""
    return cut(*clusters(300, 6, 3, spread=2.0))


def noise(split: FeatureSplit) -> Float[Tensor, "F B D"]:
    """Features of the same shape that do not depend on the images."""
    draw = torch.Generator().manual_seed(len(split.labels))
    return torch.randn(split.features.shape, generator=draw)


def stacked(first: FeatureSplits, second: FeatureSplits) -> FeatureSplits:
    """The layers of both, of the same images."""
    pairs = ((getattr(first, name), getattr(second, name)) for name in ("train", "validation", "test"))
    joined = (FeatureSplit(torch.cat([one.features, two.features]), one.labels) for one, two in pairs)
    return FeatureSplits(*joined)


def standardize(splits: FeatureSplits) -> FeatureSplits:
    """Standardize all splits by the mean and standard deviation of train."""
    standardizer = Standardizer.fit(splits.train.features)
    return splits.map(lambda split: split.map(standardizer))


def run(splits: FeatureSplits, method: ProbeMethod = METHOD, config: ProbeConfig = CONFIG) -> LayerScores:
    return evaluate_probe(splits, method, config, device=CPU).result

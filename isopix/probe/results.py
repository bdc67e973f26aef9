"""Evidence: what a probe found, as plain records for tables, reports and JSON."""

from dataclasses import dataclass
from typing import Any, Literal

from isopix.core.config import config, to_dict
from isopix.model.pool import Pool
from isopix.probe import knn, sgd  # noqa: F401  registered
from isopix.probe.base import ProbeMethod
from isopix.probe.features import Stream
from isopix.probe.linear import Lbfgs

# Half decades. Standardised features make one grid serve every network, and a penalty on the mean loss every
# number of images: at 10 the weights all but vanish, at 1e-8 they are free. The last six take most of the
# time, and only networks whose features say little each need them.
STRENGTHS = tuple(float(f"{10 ** (power / 2):.3g}") for power in range(-10, 3))
WEAKER = tuple(float(f"{10 ** (power / 2):.3g}") for power in range(-16, -10))

# huggingface: without the start symbol, each pixel one position early, as their feature path is used.
Reading = Literal["paper", "huggingface"]

TITLES = {
    "lbfgs": "logistic regression by L-BFGS",
    "sgd": "logistic regression by SGD",
    "ridge": "ridge regression",
    "knn": "nearest neighbours",
}
# all: each alone; best5: then also the five around the best as one; a number: that layer alone.
Layers = Literal["all", "best5"] | int


@config
class Protocol:
    """How a network is read and a probe is fitted, chosen and judged; the rest is network and images.

    `stream` and `pool` say what is read of a layer, `reading` how the image enters, `layers` of which. With
    `masks` a masked network reads every image under a mask of its own, and each test image under so many,
    whose answers are put to a vote (iGPT section 4.6); with 0 it sees everything.

    `method` tells the classes. `strengths` are of the penalty of logistic.py and ridge.py; where validation
    chooses the weakest of them, `weaker` ones are tried too. With `fold_back` the chosen layer is also fitted
    to train and validation together, at the setting that validation chose (iGPT section 3.1).
    """

    method: ProbeMethod = Lbfgs()

    stream: Stream = "n"
    pool: Pool = "mean"
    reading: Reading = "paper"
    layers: Layers = "all"
    masks: int = 0
    strengths: tuple[float, ...] = STRENGTHS
    weaker: tuple[float, ...] = WEAKER
    fold_back: bool = False
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.strengths or not all(0 < strength < float("inf") for strength in self.strengths):
            raise ValueError(f"strengths {self.strengths} must be one or more positive numbers")
        if not all(0 < strength < min(self.strengths) for strength in self.weaker):
            raise ValueError(f"weaker {self.weaker} must be positive, and below all strengths")
        if self.masks < 0 or (isinstance(self.layers, int) and self.layers < 0):
            raise ValueError(f"masks {self.masks} and layers {self.layers} must be at least 0")
        if self.resamples < 1:
            raise ValueError(f"resamples {self.resamples} must be at least 1")


@dataclass(frozen=True)
class Ensemble:
    """What masks do: the mean accuracy of one alone, and that of the highest mean probability over all."""

    single: float
    mean_probability: float


@dataclass(frozen=True)
class LayerScore:
    """One layer at the strength, rate or number of neighbours that validation chose, whichever it has.

    Accuracies are shares of images; 95 % of the test set's resamples lie in `low`..`high`. `objective`
    (nats an image, or the mean squared error of ridge), `gradient` (its length) and `steps` tell of the
    judged fit. Under masks `test` is the accuracy of the modal vote.
    """

    layer: int
    strength: float | None
    validation: float
    test: float
    low: float
    high: float
    objective: float | None
    gradient: float | None
    steps: int | None
    rate: float | None = None
    neighbours: int | None = None
    ensemble: Ensemble | None = None


@dataclass(frozen=True)
class Joined:
    """The score of these layers as one of as many times the width; its `layer` is their first."""

    layers: tuple[int, ...]
    score: LayerScore


@dataclass(frozen=True)
class Record:
    """A probe of some layers.

    `best` is the place of the layer with the highest validation accuracy (the first of equals), `majority`
    the test accuracy of always answering train's most frequent class, `images` the number in each split.
    `joined` are the layers around the best as one, if asked for and more than one.
    """

    layers: tuple[LayerScore, ...]
    best: int
    classes: int
    majority: float
    images: dict[str, int]
    warnings: tuple[str, ...]
    joined: Joined | None = None

    @property
    def score(self) -> LayerScore:
        """The best layer's: the number to report."""
        return self.layers[self.best]

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values, ready for JSON; `core.config.from_dict` reads them back."""
        return to_dict(self)


@dataclass(frozen=True)
class Evidence:
    """The probe of a network, beside the same probe of what has learnt nothing.

    `folded` is the score of the network's best layer with validation folded back, if that was asked for: its
    `validation` is the accuracy that it was chosen by.
    """

    protocol: Protocol
    network: Record
    controls: dict[str, Record]
    folded: LayerScore | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values, ready for JSON; `core.config.from_dict` reads them back."""
        return to_dict(self)

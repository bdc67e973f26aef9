"""Results of the studies of scaling and of baselines, without PyTorch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import mean
from typing import Literal

from isopix.core.text import Table, mean_and_std
from isopix.studies.results import TrialOutcome, TrialsResult

Measure = Literal["loss", "error"]  # of validation images in nats, and of the best layer's probe
TARGET_ACCURACY, TARGET_SEEDS = 0.45, 5  # of the speed run
QUANTITIES = {"parameters": "parameters in blocks", "tokens": "tokens seen", "value": "loss or error"}


@dataclass(frozen=True)
class NetworkOutcome(TrialOutcome):
    """A trained network; `parameters` are those of its blocks, `tokens` the pixels that it has seen, and
    `untrained_error` that of the same network untrained, where it is probed too.
    """

    recipe: str = ""
    size: str = ""
    budget: float = 0.0
    flops: int = 0
    parameters: int = 0
    tokens: int = 0
    loss: float = 0.0
    error: float = 0.0
    untrained_error: float | None = None
    layer: int = 0
    seconds: float = 0.0

    @property
    def text(self) -> str:
        if self.status != "done":
            return super().text
        accuracy = f"probe accuracy {1 - self.error:.1%} at layer {self.layer}"
        return f"loss {self.loss:.3f} nats, {accuracy}" if self.tokens else accuracy


@dataclass(frozen=True)
class Estimated:
    """A number with its 95% interval."""

    value: float
    interval: tuple[float, float]

    def text(self, form: str) -> str:
        low, high = self.interval
        return f"{self.value:{form}} ({low:{form}} to {high:{form}})"


@dataclass(frozen=True)
class Optimum:
    """The best size at a budget, and its tokens and value; not `inside`: no size is smaller, or larger."""

    budget: float
    parameters: Estimated
    tokens: Estimated
    value: Estimated
    inside: bool


@dataclass(frozen=True)
class PowerLaw:
    """factor · FLOPs ** exponent, of all budgets; `smaller` is that of all but the largest, whose value it
    has `predicted`.
    """

    factor: float
    exponent: Estimated
    smaller: tuple[float, float]
    predicted: Estimated

    def at(self, flops: float) -> float:
        return float(self.factor * flops**self.exponent.value)


@dataclass(frozen=True)
class ScalingLaw:
    """The optima of a recipe by a measure, and the power law of each quantity; only of optima inside."""

    recipe: str
    measure: Measure
    optima: tuple[Optimum, ...]
    laws: Mapping[str, PowerLaw] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.recipe}, {self.measure}"

    @property
    def largest(self) -> Optimum:
        """The optimum of the largest budget of the laws."""
        return [each for each in self.optima if each.inside][-1]


class ScalingResult(TrialsResult):
    """IsoFLOP profiles, their optima, and power laws; `target` has parameters and FLOPs of igpt.s."""

    laws: tuple[ScalingLaw, ...] = ()
    trials: Mapping[str, NetworkOutcome]
    target: Mapping[str, float] = field(default_factory=dict)

    def tables(self) -> list[Table]:
        return [*self._profiles(), self._optima(), self._laws(), self.facts_table()]

    def _profiles(self) -> Iterator[Table]:
        done = [each for each in self.trials.values() if each.status == "done"]
        budgets = sorted({each.budget for each in done})
        columns = ["size", "parameters", *(f"{budget:.3g} FLOPs" for budget in budgets)]
        for recipe in dict.fromkeys(each.recipe for each in done):
            rows = []
            for size in dict.fromkeys(each.size for each in done if each.recipe == recipe):
                own = [each for each in done if (each.recipe, each.size) == (recipe, size)]
                cells = [_cell([each for each in own if each.budget == budget]) for budget in budgets]
                rows.append((size, f"{own[0].parameters:,}", *cells))
            caption = f"{recipe}: validation loss (nats per pixel), probe accuracy (%); mean ± std of seeds"
            yield Table(caption, columns, rows)

    def _optima(self) -> Table:
        columns = ["", "FLOPs", "parameters (95% CI)", "tokens per parameter", "loss or error (95% CI)", ""]
        rows = []
        for law in self.laws:
            for each in law.optima:
                ratio, edge = each.tokens.value / each.parameters.value, "" if each.inside else "at the edge"
                numbers = each.parameters.text(",.0f"), f"{ratio:,.0f}", each.value.text(".3f")
                rows.append((law.name, f"{each.budget:.3g}", *numbers, edge))
        return Table("Best size at each budget: the vertex of a parabola in its logarithm", columns, rows)

    def _laws(self) -> Table:
        columns = ["", "quantity", "exponent (95% CI)", "largest budget, predicted (95% CI)", "measured"]
        rows = []
        for law in self.laws:
            for name, each in law.laws.items():
                measured: Estimated = getattr(law.largest, name)
                numbers = each.exponent.text("+.3f"), each.predicted.text(".4g"), f"{measured.value:.4g}"
                rows.append((law.name, QUANTITIES[name], *numbers))
        caption = "Power laws of the FLOPs; predictions are those of all budgets but the largest"
        return Table(caption, columns, rows)

    def notes(self) -> list[str]:
        return [*(self._extrapolated(law) for law in self.laws if law.laws), *super().notes()]

    def _extrapolated(self, law: ScalingLaw) -> str:
        flops, own = self.target["flops"], self.target["parameters"]
        size, value = (law.laws[name].at(flops) for name in ("parameters", "value"))
        return (
            f"{law.name}: for the {flops:.2g} FLOPs of igpt.s the law gives {size:.2g} parameters "
            f"(igpt.s: {own:.2g}) and {law.measure} {value:.2g}: an extrapolation to "
            f"{flops / law.largest.budget:.2g} times the largest budget and to other images"
        )


class BaselinesResult(TrialsResult):
    """The probe accuracy of each method by the FLOPs of its training."""

    trials: Mapping[str, NetworkOutcome]

    def points(self) -> dict[str, dict[float, list[float]]]:
        """Return the accuracies of each method by its FLOPs."""
        found = dict[str, dict[float, list[float]]]()
        for each in (each for each in self.trials.values() if each.status == "done"):
            found.setdefault(each.recipe, {}).setdefault(float(each.flops), []).append(1 - each.error)
        return found

    def tables(self) -> list[Table]:
        rows = [
            (method, f"{flops:.2g}" if flops else "none", mean_and_std([100 * each for each in same], ".1f"))
            for method, own in self.points().items()
            for flops, same in own.items()
        ]
        columns = ["method", "training FLOPs", "probe accuracy (%)"]
        caption = "Linear probes on test images, mean ± std over seeds; FLOPs of k-means are an upper bound"
        return [Table(caption, columns, rows), self.facts_table()]


class SpeedResult(TrialsResult):
    """Minutes and FLOPs of each record, whose description is in `texts`, and the accuracy that it reaches."""

    trials: Mapping[str, NetworkOutcome]
    texts: Mapping[str, str] = field(default_factory=dict)

    def tables(self) -> list[Table]:
        columns = "record", "", "FLOPs", "minutes", "÷ previous", "probe (%)", "untrained", "seeds", "target"
        rows, before = list[tuple[str, ...]](), 0.0
        for name, text in self.texts.items():
            planned = [each for key, each in self.trials.items() if key.partition("-seed-")[0] == name]
            own = [each for each in planned if each.status == "done"]
            if not own:
                continue
            minutes, accuracies = [each.seconds / 60 for each in own], [1 - each.error for each in own]
            ratio = f"{mean(minutes) / before:.2f}" if before else ""
            untrained = [1 - each.untrained_error for each in own if each.untrained_error is not None]
            texts = [mean_and_std([100 * each for each in same], ".2f") for same in (accuracies, untrained)]
            target = "reached" if mean(accuracies) >= TARGET_ACCURACY else "missed"
            target = "reached untrained" if mean(untrained) >= TARGET_ACCURACY else target
            target = target if len(own) == max(TARGET_SEEDS, len(planned)) else "seeds are missing"
            times = f"{own[0].flops:.3g}", mean_and_std(minutes, ".2f"), ratio
            rows.append((name, text, *times, *texts, f"{len(own)}", target))
            before = mean(minutes)
        caption = f"Pre-training to {TARGET_ACCURACY:.1%} of test images, mean ± std over seeds"
        return [Table(caption, columns, rows), self.facts_table()]


def _cell(same: list[NetworkOutcome]) -> str:
    if not same:
        return ""
    accuracies = [100 * (1 - each.error) for each in same]
    return f"{mean_and_std([each.loss for each in same], '.3f')}, {mean_and_std(accuracies, '.1f')}"

"""Costs of a recipe, and results of `show` and `plan`, without PyTorch."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple

from isopix.core.choices import Precision
from isopix.core.overrides import as_yaml
from isopix.core.text import Table, format_bytes, format_duration
from isopix.storage.result import Result

UNCHANGED = "recipe"  # the source of values of the recipe
SEARCH = "search"  # or search:LARGEST..SMALLEST, given as the learning rate


class ModelCost(NamedTuple):
    parameters: int
    forward_flops: int
    training_flops: int


class TrainingMemory(NamedTuple):
    """Bytes for weights, gradients and moments, for copies of weights, and for an image's activations."""

    weight_bytes: int
    copy_bytes: int
    activation_bytes: int

    def step_bytes(self, batch_size: int) -> int:
        return self.weight_bytes + self.copy_bytes + batch_size * self.activation_bytes


@dataclass(frozen=True)
class DeviceCost:
    """Hours of training on one device, and their price if a price per hour is given."""

    device: str
    peak_flops: float
    hours: float
    price: float | None


@dataclass(frozen=True)
class BestSize:
    """The size that a scaling law gives for a number of FLOPs: parameters in blocks, the settings of the
    nearest network, and the expected loss or error on the `images` of the law, whose largest budget of FLOPs
    is `beyond` times smaller.
    """

    measure: Literal["loss", "error"]
    parameters: float
    settings: tuple[str, ...]
    expected: float
    beyond: float
    images: str

    @property
    def row(self) -> tuple[str, ...]:
        numbers = f"{self.expected:.3f}", f"{self.beyond:.2g}"
        return self.measure, f"{self.parameters:,.0f}", " ".join(self.settings), *numbers


class PlanResult(Result):
    """Cost of training; FLOPs are per image, bytes and seconds are estimates for `device`.

    `best_sizes` are those for `minutes` on it.
    """

    recipe: str
    size: str
    positions: int
    steps: int
    batch_size: int
    accumulate: int
    precision: Precision
    gpu_precision: Precision
    parameters: int
    forward_flops: int
    training_flops: int
    weight_bytes: int
    copy_bytes: int
    activation_bytes: int
    step_bytes: int
    free_bytes: int
    device: str
    images_per_second: float
    peak: Literal["data-sheet peak", "measured matmul throughput"]
    mfu: float
    price: float | None
    device_hours: tuple[DeviceCost, ...]
    minutes: float | None = None
    best_sizes: tuple[BestSize, ...] = ()

    @property
    def images(self) -> int:
        return self.steps * self.batch_size

    @property
    def seconds(self) -> float:
        return self.images / self.images_per_second

    def tables(self) -> list[Table]:
        return [self._estimate(), *self._best_sizes(), self._hours()]

    def notes(self) -> list[str]:
        return [f"The time assumes {self.mfu:.0%} of the {self.peak} of {self.device}."]

    def _estimate(self) -> Table:
        chunk = self.batch_size // self.accumulate
        rows = [
            ("parameters", f"{self.parameters:,}"),
            ("FLOPs per image, forward", f"{self.forward_flops:.3g}"),
            ("FLOPs per image, training", f"{self.training_flops:.3g}"),
            ("memory: weights, gradients, optimizer state", format_bytes(self.weight_bytes)),
            ("precision", self.precision),
            (f"memory: training step, batch of {chunk}", format_bytes(self.step_bytes)),
            ("memory: available", format_bytes(self.free_bytes)),
            ("training images", f"{self.images:,} ({self.steps:,} steps, batch size {self.batch_size})"),
            ("estimated throughput", f"{self.images_per_second:.3g} img/s"),
            ("estimated time", format_duration(self.seconds)),
        ]
        return Table(f"{self.recipe}: {self.size}, {self.positions:,} positions", ["quantity", "value"], rows)

    def _best_sizes(self) -> Iterator[Table]:
        columns = [
            "lowest",
            "parameters in blocks",
            "nearest network",
            "expected",
            "÷ largest budget measured",
        ]
        if self.best_sizes:
            images = self.best_sizes[0].images
            caption = f"Best size for {self.minutes:g} minutes, by a scaling law of {images}"
            yield Table(caption, columns, [each.row for each in self.best_sizes])

    def _hours(self) -> Table:
        caption = f"Training on one device at {self.mfu:.0%} of its {self.gpu_precision} peak"
        rows = []
        for each in self.device_hours:
            cost = [] if each.price is None else [_amount(each.price)]
            rows.append((each.device, f"{each.peak_flops / 1e12:,.1f}", _amount(each.hours), *cost))
        columns = ["device", "peak TFLOP/s", "hours", "cost"]
        return Table(caption, columns if self.price is not None else columns[:-1], rows)


@dataclass(frozen=True)
class Setting:
    """A setting of a resolved recipe, its origin, its value in the unchanged recipe, and its meaning."""

    path: str
    value: Any
    source: str
    default: Any
    meaning: str

    @property
    def line(self) -> str:
        """The setting in a YAML file; a learning rate to search for as it was given."""
        return f"{self.path}: {as_yaml(self.source if self.source.startswith(SEARCH) else self.value)}"

    @property
    def comment(self) -> str:
        """The origin of a changed value, the recipe's own value, and the meaning."""
        changed = f"({self.source}; recipe: {as_yaml(self.default)}) " if self.source != UNCHANGED else ""
        return changed + self.meaning


class RecipeSettings(Result):
    """Every setting of a recipe, with changed settings."""

    recipe: str
    settings: tuple[Setting, ...]

    def tables(self) -> list[Table]:
        groups = groupby(self.settings, key=lambda each: each.path.partition(".")[0])
        return [
            Table(group, ["setting", "meaning"], [(each.line, each.comment) for each in own])
            for group, own in groups
        ]

    @property
    def document(self) -> str:
        """The lines of a settings file, with meanings as comments."""
        width = max(len(each.line) for each in self.settings)
        hint = "# On the command line the end of a name is enough: depth=4 is model.depth=4.\n"
        groups = groupby(self.settings, key=lambda each: each.path.partition(".")[0])
        texts = ("".join(f"{each.line:{width}}  # {each.comment}\n" for each in own) for _, own in groups)
        return "\n".join([hint, *texts])


def _amount(count: float) -> str:
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}" if count >= 0.01 else "< 0.01"

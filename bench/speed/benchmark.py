"""Benchmark: a piece of work with its peers and sizes, and the record of its measurement."""

import abc
import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from speed.timing import SideTimes, Stopwatch, Times

OWN = "isopix"
TINY = "tiny"  # the size that shows that a benchmark works, in seconds; its times mean nothing


@dataclass(frozen=True)
class Size(abc.ABC):
    """The sizes of a benchmark on a device."""

    @abc.abstractmethod
    def label(self) -> str:
        """Return the sizes for people."""


@dataclass(frozen=True)
class RecipeSize(Size):
    """A recipe with changed settings, as on the command line, and the images of a batch; `compiled`: whether
    compiled steps are tried, too.
    """

    recipe: str
    batch: int
    compiled: bool = True

    def label(self) -> str:
        return f"{self.recipe}, batch {self.batch}"


S = TypeVar("S", bound=Size)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was checked, and the times of each side per `item`; `errors` are those of alternatives without."""

    checked: str
    times: SideTimes = field(default_factory=dict)
    item: str = "image"
    errors: dict[str, str] = field(default_factory=dict)
    values: dict[str, float | int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Benchmark(Generic[S]):
    """A piece of work, measured by `measure` in the sizes of a type of device: `cpu`, `cuda`, or `tiny`.

    It is skipped where a module of `needs` is not installed, and on types of devices without a size.
    """

    name: str
    work: str
    peer: str
    measure: Callable[[S, Stopwatch], Measured]
    sizes: Mapping[str, S]
    needs: tuple[str, ...] = ()

    def reason_to_skip(self, size: str) -> str | None:
        """Return why it cannot be measured in this size; None if it can."""
        missing = [module for module in self.needs if importlib.util.find_spec(module) is None]
        if missing:
            return f"{', '.join(missing)} is not installed: pip install -e '.[bench]'"
        if size in self.sizes:
            return None
        devices = [each for each in self.sizes if each != TINY]
        return "it has no tiny size" if size == TINY else f"it has sizes for {', '.join(devices)} only"

    def run(self, size: str, watch: Stopwatch) -> dict[str, Any]:
        """Measure it; return what was measured, in which sizes, the checks, and a comparison with each peer.

        Raises NumericsError if a check fails, and RuntimeError if one side does not work.
        """
        found = self.measure(self.sizes[size], watch)
        label = self.sizes[size].label()
        return {
            "sizes": dataclasses.asdict(self.sizes[size]),
            "checked": found.checked,
            "item": found.item,
            "alternatives": {
                side: {name: times.to_dict() for name, times in each.items()}
                for side, each in found.times.items()
            },
            "errors": found.errors,
            "values": found.values,
            "comparisons": comparisons(f"{self.work}, {label}", found.times),
        }


def comparisons(task: str, times: SideTimes) -> list[dict[str, Any]]:
    """Return the speedup of isopix over each other side: the ratio of the median seconds of the best
    alternative of each.
    """
    if OWN not in times:
        return []
    own_name, own = best(times[OWN])
    rows = []
    for peer, alternatives in times.items():
        if peer != OWN:
            name, found = best(alternatives)
            rows.append(
                {
                    "task": task,
                    "peer": f"{peer}, {name}" if name else peer,
                    "isopix_alternative": own_name,
                    "speedup": found.median / own.median,
                    "n": len(own.seconds),
                    "isopix_seconds": own.to_dict(),
                    "peer_seconds": found.to_dict(),
                }
            )
    return rows


def best(alternatives: Mapping[str, Times]) -> tuple[str, Times]:
    """Return the name and the times of the alternative with the least median."""
    return min(alternatives.items(), key=lambda item: item[1].median)

"""Words, numbers and ranges that settings, functions and options share; without PyTorch, for instant help.

A range is declared in a type: `ratio: Annotated[float, Range(above=0, below=1)] = 0.15`.
"""

import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

from cyclopts import Group, Parameter
from pydantic import GetCoreSchemaHandler, PlainSerializer
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

T = TypeVar("T")
OfPaper = Annotated[T, Parameter(group=Group.create_ordered("From the papers", sort_key=9))]
"""An option that only readers of a paper need, in a panel of its own in the help."""

Precision = Literal["fp32", "bf16"]
FeatureKind = Literal["normed", "residual"]
Pool = Literal["mean", "last", "max", "first", "grid2", "grid4", "flatten"]
SplitName = Literal["train", "validation", "test"]
ExportFormat = Literal["isopix", "huggingface", "torch", "onnx"]

MFU = 0.4  # model FLOPs utilization: what well-tuned code reaches at these widths
EXAMINED_IMAGES = 50_000  # of each split in a survey: all of CIFAR, a minute or two of photographs

Number = Annotated[
    int | float,  # for which pydantic would write NaN and infinity as null
    PlainSerializer(lambda number: number if math.isfinite(number) else json.dumps(number), when_used="json"),
]


@dataclass(frozen=True, kw_only=True)
class Range:
    """Finite numbers between limits that belong to the range (`low`, `high`) or do not (`above`, `below`)."""

    low: Number = -math.inf
    high: Number = math.inf
    above: Number = -math.inf
    below: Number = math.inf

    def __contains__(self, value: Number) -> bool:
        return self.low <= value <= self.high and self.above < value < self.below

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: Number) -> Number:
        if value not in self:
            raise ValueError(f"allowed: {self}")
        return value

    def __str__(self) -> str:
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"{self.low:g} to {self.high:g}"
        limits = {"{:g} or more": self.low, "above {:g}": self.above}
        limits |= {"at most {:g}": self.high, "below {:g}": self.below}
        return " and ".join(text.format(limit) for text, limit in limits.items() if math.isfinite(limit))


Count = Annotated[int, Range(low=1)]
NonNegative = Annotated[int, Range(low=0)]
PositiveNumber = Annotated[float, Range(above=0)]
Size = Annotated[int, Range(low=1, high=65_536)]  # of a network: beyond it no weights would fit into memory
Depth = Annotated[int, Range(low=1, high=1_024)]
Probability = Annotated[float, Range(low=0, high=1)]
Dropout = Annotated[float, Range(low=0, below=1)]


def check_ranges(settings: object) -> None:
    """Raise ValueError for the first setting outside its declared range; `__post_init__` calls it first."""
    ranges = _ranges(type(settings))  # type: ignore[arg-type]  # mypy: type[object] has no hash
    for name, allowed in ranges.items():
        value = getattr(settings, name)
        if value is not None and value not in allowed:
            raise ValueError(f"{name} is {value}; allowed: {allowed}")


@cache
def _ranges(cls: type) -> dict[str, Range]:
    return {
        name: extra
        for name, hint in get_type_hints(cls, include_extras=True).items()
        for member in (hint, *get_args(hint))
        for extra in getattr(member, "__metadata__", ())
        if isinstance(extra, Range)
    }

"""What the annotations of a function do not allow is one line: what was given, and what is allowed."""

import inspect
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType, NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import isopix
from isopix.api.arguments import checked
from isopix.core.choices import Count
from isopix.pretrained.model import PretrainedModel
from tests.unit.data.refusal import refusal

METHODS = ("features", "logits", "nll", "sample", "complete", "reconstruct")
WRONG: dict[Any, Any] = {Literal: "other", int: 2.5, float: "one", bool: 3, str: 3, Sequence: 3}


def functions() -> dict[str, Callable[..., Any]]:
    """Every function of `import isopix`, and the methods of a model that take settings."""
    found: dict[str, Callable[..., Any]] = {}
    for name in isopix.__all__:
        each = getattr(isopix, name)
        if isinstance(each, FunctionType) and name != "load_plugin":
            found[name] = each
        elif isinstance(each, ModuleType) and each.__name__.startswith("isopix.api"):
            inside = inspect.getmembers(each, inspect.isfunction)
            found |= {
                f"{name}.{key}": one
                for key, one in inside
                if one.__module__ == each.__name__ and key[0] != "_"
            }
    methods = {f"model.{name}": getattr(PretrainedModel, name) for name in ("__init__", *METHODS)}
    return {**found, **methods, "Run": isopix.Run.__init__}


def kinds_of(hint: Any) -> list[Any]:
    """The kinds of values that a parameter takes: those of a union, without None and ranges."""
    members = (
        get_args(hint) if get_origin(hint) not in (Literal, Annotated, Sequence, tuple, None) else [hint]
    )
    bare = [get_args(each)[0] if get_origin(each) is Annotated else each for each in members]
    return [get_origin(each) or each for each in bare if each is not NoneType]


CASES = [
    pytest.param(function, parameter.name, kind, id=f"{name}-{parameter.name}")
    for name, function in functions().items()
    for parameter in inspect.signature(function).parameters.values()
    for kind in kinds_of(get_type_hints(function, include_extras=True).get(parameter.name, Any))[:1]
    if kind in WRONG
]


@pytest.mark.parametrize(("function", "name", "kind"), CASES)
def test_a_wrong_argument_is_refused_before_anything_is_done(
    function: Callable[..., Any], name: str, kind: Any
) -> None:
    parameters = inspect.signature(function).parameters
    required = [
        each.name for each in parameters.values() if each.default is each.empty and each.name != "self"
    ]
    if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
        line = refusal(function, WRONG[kind])
    else:
        arguments = {name: WRONG[kind], **{each: "x" for each in required if each != name}}
        line = refusal(lambda: function(*["self"] * ("self" in parameters), **arguments))
    assert line.startswith(f"{name} is {WRONG[kind]!r}; ")


def test_the_law_covers_every_kind_of_argument() -> None:
    names = {case.id for case in CASES}
    assert {"probe-features", "verify-seed", "report-runs", "low_data-labels", "model.sample-count"} <= names
    assert {"convert.openai-rows", "study.inductive_bias-scale", "plan-mfu"} <= names


LINES: dict[str, tuple[Callable[[], object], str]] = {
    "features": (lambda: isopix.probe("r", features="x"), "features is 'x'; allowed: normed, residual"),
    "precision": (lambda: isopix.verify("r", precision="fp16"), "precision is 'fp16'; allowed: fp32, bf16"),
    "pool": (
        lambda: isopix.probe("r", pool="x"),
        "pool is 'x'; allowed: mean, last, max, first, grid2, grid4, flatten",
    ),
    "split": (
        lambda: isopix.complete("r", split="tset"),
        "split is 'tset'; allowed: train, validation, test",
    ),
    "layer": (lambda: isopix.probe("r", layer="a"), "layer is 'a'; it must be an integer"),
    "top_k": (lambda: isopix.sample("r", top_k=2.5), "top_k is 2.5; it must be an integer"),
    "seed": (lambda: isopix.sample("r", seed=1.5), "seed is 1.5; it must be an integer"),
    "true": (lambda: isopix.sample("r", seed=True), "seed is True; it must be an integer"),
    "count": (lambda: isopix.sample("r", 0), "count is 0; allowed: 1 or more"),
    "recipe": (lambda: isopix.pretrain(3, out="o"), "recipe is 3; it must be a string or a Recipe"),
    "one override": (
        lambda: isopix.pretrain("igpt.digits", *"steps=2", out="o"),
        "overrides is 'steps=2'; it must be a list of strings",
    ),
    "labels": (lambda: isopix.low_data("r", labels=4), "labels is 4; it must be a list of values"),
    "zero labels": (lambda: isopix.low_data("r", labels=[4, 0]), "labels[1] is 0; allowed: 1 or more"),
    "reports": (lambda: isopix.report(["a", "b"]), "runs is ['a', 'b']; it must be a string or a path"),
    "model": (
        lambda: isopix.report(np.zeros((2, 2))),
        "runs is a ndarray; it must be a string or a path",
    ),
    "position": (
        lambda: isopix.analyze("r", positions=[3]),
        "positions[0] is 3; it must be (an integer, an integer) or 'class'",
    ),
    "size": ("size is 3; it must be (an integer, an integer)",),
    "run": (lambda: isopix.Run(3), "folder is 3; it must be a string or a path"),
}


@pytest.mark.parametrize(("call", "line"), LINES.values(), ids=list(LINES))
def test_the_line_says_what_is_allowed(call: Callable[[], object], line: str) -> None:
    assert refusal(call) == line


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda: isopix.pretrain("igpt.digits", out="r", steps=5),
            "pretrain() has no argument 'steps'; if it is a setting: overrides=['steps=5']",
        ),
        (
            lambda: isopix.sample("r", temperatur=1.0),
            "sample() has no argument 'temperatur'; did you mean 'temperature'?",
        ),
    ],
)
def test_an_unknown_argument_is_a_type_error_that_helps(call: Callable[[], object], line: str) -> None:
    assert refusal(call, kind=TypeError) == line


def test_help_names_types_instead_of_all_that_they_allow() -> None:
    text = str(inspect.signature(isopix.complete))
    assert "(run: RunLike, images: ImagesLike | None = None, *, data: DataLike | None = None" in text
    assert "count: Count | None = None, rows: int | None = None, mask: MaskLike | None = None" in text
    assert "device: DeviceLike = 'auto')" in text
    explained = re.findall(r"(?m)^    ([A-Z]\w+)  ", isopix.__doc__ or "")
    assert set(explained) == {"RunLike", "DataLike", "ImagesLike", "MaskLike", "DeviceLike", "Count"}


def test_numbers_of_numpy_become_those_of_python_and_lists_tuples() -> None:
    @checked
    def taken(
        count: Count,
        *,
        share: float = 0.5,
        flag: bool = False,
        many: Sequence[Count] = (),
        at: tuple[int, int] | None = None,
        folder: str | os.PathLike[str] = "",
    ) -> list[object]:
        return [count, share, flag, many, at, folder]

    numbers: dict[str, Any] = {
        "share": np.float32(0.25),
        "flag": np.True_,
        "many": np.arange(1, 3),
        "at": [1, np.int8(2)],
    }
    found = taken(np.int64(3), folder=Path("x"), **numbers)
    assert found == [3, 0.25, True, (1, 2), (1, 2), Path("x")]
    assert [type(each) for each in found[:3]] == [int, float, bool]
    assert taken(3, share=1)[1] == 1
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        taken()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no argument 'shares'"):
        taken(1, shares=2)  # type: ignore[call-arg]

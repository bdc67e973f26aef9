"""The types of the values in the JSON files of a run, checked as they are read."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from isopix.storage.atomic import read_json

MAX_SHOWN = 40  # characters of a wrong value in a message

# A type by the name of a value; {...} for an object with all of these, [{...}] for a list of them.
Types = Mapping[str, Any]
StepNumber = Annotated[int, Field(ge=0, lt=2**63)]
Parts = Annotated[int, Field(ge=1, lt=2**63)]

PLUGIN: Types = {"path": str, "sha256": str, "parts": list[str]}
ENVIRONMENT: Types = {
    "run_id": str,
    "isopix": str,
    "device": str,
    "threads": int,
    "torch": str,
    "pillow": str,
    "python": str,
    "platform": str,
    "commit": str | None,
    "started": str,
    "folder": str,
    "command": list[str],
    "plugins": [PLUGIN],
    "data": str,
    "images": dict[str, int],
    "majority": float,
    "trained_parameters": int,
    "pretrained": {"run": str, "step": StepNumber},
    "selected": {
        "step": StepNumber,
        "validation_accuracy": float,
        "run": str,
    },
    "palette": dict[str, str | None],
}
STATE: Types = {
    "step": StepNumber,
    "codec": str,
    "data": str,
    "run_id": str | None,
    "files": dict[str, str],
    "labels_seen": int | None,
    "selection": str,
    "decoder_valid": bool,
    "origin": {"labels_seen": int | None, "initial_labels_seen": int | None, "decoder_valid": bool},
    "seen_known": bool,
    "classes": list[str],
    "training_classes": list[str],
    "skipped_batches": StepNumber,
    "accumulate": Parts,
}


def check_types(values: object, types: Types, where: str, required: tuple[str, ...] = ()) -> None:
    """Raise ValueError, which begins with `where`, for a value of another type than its name has in `types`,
    and for a `required` one that is missing.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{where} is {shown(values)}; allowed: an object")
    for name in required:
        if name not in values:
            raise ValueError(f"{where} has no '{name}'")
    for name, allowed in types.items():
        if name in values:
            _check(values[name], allowed, f"{where}: '{name}'")


def _check(value: object, allowed: Any, where: str) -> None:
    if isinstance(allowed, Mapping):
        check_types(value, allowed, where, tuple(allowed))
    elif isinstance(allowed, list):
        if not isinstance(value, list):
            raise ValueError(f"{where} is {shown(value)}; allowed: a list")
        for each in value:
            check_types(each, allowed[0], f"an element of {where}", tuple(allowed[0]))
    elif problem := type_error(value, allowed):
        raise ValueError(f"{where} is {problem}")


def type_error(value: object, allowed: Any) -> str:
    """Return what a value is and what it must be; empty if it has the allowed type."""
    try:
        _adapter(allowed).validate_python(value, strict=True)
    except ValidationError:
        return f"{shown(value)}; allowed: {_named(allowed)}"
    return ""


def check_environment(values: Mapping[str, Any], where: str = "environment.json") -> None:
    """Raise ValueError for a record of the environment with values of wrong types."""
    check_types(values, ENVIRONMENT, where)


def check_state(values: Mapping[str, Any], where: str = "state.json") -> None:
    """Raise ValueError for the state of a checkpoint with values that are missing or of wrong types."""
    check_types(values, STATE, where, ("step", "codec", "data"))


def read_environment(path: Path, *required: str) -> dict[str, Any]:
    """Return the environment of a run folder, which has the values that are `required`. Raises what
    `read_record` raises.
    """
    return read_record(path, ENVIRONMENT, *required)


def read_record(path: Path, types: Types, *required: str) -> dict[str, Any]:
    """Return the values of a JSON object.

    Raises ValueError that begins with the path for values that are missing or of wrong types, OSError if the
    file cannot be read.
    """
    try:
        values = read_json(path)
        check_types(values, types, path.name, required)
    except ValueError as error:
        raise ValueError(f"{path.parent}: {error}") from None
    return values


@cache
def _adapter(allowed: Any) -> Any:
    return TypeAdapter(allowed)


def _named(allowed: Any) -> str:
    if allowed in (StepNumber, Parts):
        return "a step number" if allowed is StepNumber else "1 or more"
    return (
        allowed.__name__ if isinstance(allowed, type) and not hasattr(allowed, "__args__") else str(allowed)
    )


def shown(value: object) -> str:
    """Return a value as Python writes it, at most 40 characters of it."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."

"""Mutations of run folders whose hashes are right: other values in JSON files, other tensors."""

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from isopix.storage.checkpoint import DamagedCheckpointError

LONGEST = 1500  # characters of a message
EXPECTED = (ValueError, RuntimeError, DamagedCheckpointError)  # and errors of the operating system
DEEP: Any = "deep"  # stands for a list inside lists inside lists
VALUES: list[Any] = [
    None,
    True,
    "",
    "abc",
    "x" * 5000,
    "\u202e\x1b[31m<script>",
    [],
    ["a", 1, None],
    {},
    {"a": {"b": []}},
    0,
    -1,
    3,
    10**9,
    2**63 - 1,
    2**64,
    10**400,
    0.5,
    -1e300,
    float("nan"),
    float("inf"),
    DEEP,
]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value inside."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(items)[:8] if isinstance(value, list) else items:
        yield from places(each, (*path, key))


def mutate(values: Any, chance: random.Random) -> str:
    """Replace, delete or add one value, and return what was done."""
    path = chance.choice(list(places(values)))
    *parents, last = path
    inside = values
    for key in parents:
        inside = inside[key]
    name = "/".join(map(str, path))
    if chance.random() < 0.15:
        del inside[last]
        return f"{name} deleted"
    new = chance.choice(VALUES)
    inside[last] = new
    return f"{name} = {str(new)[:30]!r} ({type(new).__name__})"


def text_of(values: Any) -> str:
    text = json.dumps(values)
    return text.replace(json.dumps(DEEP), "[" * 50_000 + "]" * 50_000)


def mutate_json(file: Path, chance: random.Random) -> str:
    """Mutate a JSON file, or a line of a log; return what was done."""
    if file.suffix == ".jsonl":
        lines = file.read_text().splitlines()
        number = chance.randrange(len(lines))
        values = json.loads(lines[number])
        done = f"line {number + 1}: {mutate(values, chance)}"
        lines[number] = text_of(values)
        file.write_text("\n".join(lines) + "\n")
    else:
        values = json.loads(file.read_text())
        done = mutate(values, chance)
        file.write_text(text_of(values))
    if (file.parent / "manifest.json").is_file() and file.name != "manifest.json":
        seal(file.parent)
    return done


def seal(checkpoint: Path) -> None:
    """Write a manifest with the hashes of the files as they are."""
    entries = {
        file.name: {"size": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
        for file in sorted(checkpoint.iterdir())
        if file.suffix in (".json", ".safetensors") and file.name != "manifest.json"
    }
    manifest = {"format": 1, "files": entries}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def outcome(call: Callable[[], object]) -> str:
    """Return `works`, the type and the message of an error in one line, or `TRACEBACK` and what it is."""
    try:
        call()
    except (ValueError, RuntimeError, OSError) as error:
        text = str(error)
        plain = type(error) in EXPECTED or isinstance(error, OSError)
        if not plain or "\n" in text or len(text) > LONGEST:
            return f"TRACEBACK {type(error).__name__}: {text[:300]!r}"
        return f"{type(error).__name__}: {text}"
    except Exception as error:
        return f"TRACEBACK {type(error).__name__}: {str(error)[:300]!r}"
    return "works"

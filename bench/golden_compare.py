"""What differs between two golden transcripts: numbers, weights and pictures that are gone, wherever their
keys have moved; then texts.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOISE = re.compile(  # in keys of what depends on the time, the machine, the commit or the layout of files
    "second|per_s|time|date|free|peak|memory|hours|version|commit|command|path|folder|bytes|throughput|mfu"
    "|thread|pid|^sha256$|^size$|run_id|^written$"
)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the numbers and hashes of a JSON value with the last of their keys, but for times and sizes."""
    match value:
        case dict():
            for key in value.keys() - set(filter(NOISE.search, value)):
                yield from _leaves(value[key], key)
        case list():
            for each in value:
                yield from _leaves(each, name)
        case int() | float() if not isinstance(value, bool):
            yield name, repr(float(value))
        case str() if re.fullmatch(r"sha256:\w{16}|[\da-f]{16,64}", value):
            yield name, value
        case str() if re.fullmatch(r"-?\d+\.?\d*(e-?\d+)?", value):  # of a CSV file
            yield name, repr(float(value))


def compare(old_path: Path, new_path: Path) -> None:
    old, new = (json.loads((path / "golden.json").read_text()) for path in (old_path, new_path))
    for command, was in old.items():
        now = new.get(command, {"code": "none, not run", "files": {}})
        if was["code"] != now["code"]:
            print(f"\n{command}\n  exit code {was['code']} -> {now['code']}  {now.get('stderr', '')[-300:]}")
        else:
            _compare_numbers(command, was, now)
    for command in (each for each in old if each in new):
        before, after = _texts(old[command]), _texts(new[command])
        for name, lines in before.items():
            gone, come = lines - after.get(name, lines), after.get(name, lines) - lines
            if gone or come:
                changed = [f"- {each}" for each in gone] + [f"+ {each}" for each in come]
                print(f"\n== {name}: {command}", *changed, sep="\n  ")


def _compare_numbers(command: str, was: dict[str, Any], now: dict[str, Any]) -> None:
    names: tuple[dict[str, set[str]], ...] = (defaultdict(set), defaultdict(set))
    for step, found in zip((was, now), names, strict=True):
        for name, value in _leaves([step.get("json"), *step["files"].values()]):
            found[name].add(value)
    before, after = (set().union(*found.values()) for found in names)
    lost = {name: sorted(values - after) for name, values in names[0].items() if values - after}
    print(f"\n{command}" if lost else "", end="\n" if lost else "")
    for name, values in lost.items():
        found = f"now {sorted(names[1][name] - before)[:6]}" if name in names[1] else "no such key"
        print(f"  {name}: {values[:6]} ({len(values)}) {found}")


def _texts(step: dict[str, Any]) -> dict[str, Counter[str]]:
    """Return how often each line of the output and of each page is there, wherever it is."""
    texts = {"output": step.get("stdout", "") + "\n" + step.get("stderr", "")}
    texts |= {name: text for name, text in step["files"].items() if isinstance(text, str)}
    return {name: Counter(map(str.strip, text.splitlines())) for name, text in texts.items()}

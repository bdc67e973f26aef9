"""The tables of docs/speed.md: times next to peers, and memory."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from cells import RESULTS, format_ratio, format_seconds, read, recorded_peak_memories, threads

from isopix.core.text import format_bytes

RATE = "at the measured rate"
SIDES = ("isopix_seconds", "peer_seconds")


def speed() -> str:
    """Return one row per task on the machine that was measured last, next to the fastest peer."""
    machine = results()[-1]["device"]
    found = [each for each in results() if each["device"] == machine]
    tasks: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for content in found:
        for comparison, item in comparisons(content):
            tasks.setdefault(comparison["task"], []).append((comparison, item))
    head = ["| task | isopix | fastest peer | ratio (range) |", "|---|---|---|---|"]
    counts = {each["n"] for each, _ in chain.from_iterable(tasks.values())}
    repeats = " to ".join(map(str, sorted({min(counts), max(counts)})))
    title = f"On {machine}, {threads(found[-1])}, torch {found[-1]['torch']}, {repeats} repeats:\n"
    return "\n".join([title, *head, *map(row, tasks.values()), ""])


def memory() -> str:
    """Return the peak memory of training steps: the smallest of isopix and of its peer."""
    rows, machines = ["| task | isopix | peer |", "|---|---|---|"], set()
    for found in results():
        for record in measured(found):
            if peaks := recorded_peak_memories(record["values"]):
                cells = [smallest(peaks, own=own) for own in (True, False)]
                rows.append(f"| {record['comparisons'][0]['task']} | {' | '.join(cells)} |")
                machines.add(found["device"])
    return "\n".join([*rows, "", f"On {', '.join(sorted(machines))}.", ""])


def smallest(peaks: dict[str, float | int], *, own: bool) -> str:
    taken, name = min((each, name) for name, each in peaks.items() if name.startswith("isopix") == own)
    return f"{format_bytes(taken)} ({name.removeprefix('isopix, ')})"


def results() -> list[dict[str, Any]]:
    """Return the content of every file of speeds; the last file has the benchmark of a machine."""
    files = sorted(RESULTS.glob("speed-*.json"))
    contents = [read(file.name) for file in files]
    for place, content in enumerate(contents):
        same = [other for other in contents[place + 1 :] if other["device"] == content["device"]]
        later = {each["name"] for other in same for each in measured(other)}
        content["benchmarks"] = [each for each in measured(content) if each["name"] not in later]
    return contents


def measured(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in found["benchmarks"] if each["state"] == "measured"]


def comparisons(found: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for record in measured(found):
        yield from ((each, f"/{record['item']}") for each in record["comparisons"])


def row(of_task: list[tuple[dict[str, Any], str]]) -> str:
    peers = [each for each in of_task if RATE not in each[0]["peer"]]
    fastest, item = min(peers, key=lambda each: each[0]["peer_seconds"]["median"])
    own = f"{format_seconds(fastest['isopix_seconds']['median'])}{item}"
    peer = re.sub(r", (fp32|bf16|eager|compiled|batch \d+)|(?<=[a-z]) \d+\.\d\S*", "", fastest["peer"])
    return f"| {fastest['task']} | {own} | {peer} | {ratio(fastest)} |"


def ratio(comparison: dict[str, Any]) -> str:
    """Return the ratio of the medians and, with repeats, its range: slowest against fastest repeat."""
    own, peer = (comparison[side] for side in SIDES)
    low, high = peer["min"] / own["max"], peer["max"] / own["min"]
    spread = f" ({format_ratio(low)} to {format_ratio(high)})" if comparison["n"] > 1 else ""
    return format_ratio(comparison["speedup"]) + spread

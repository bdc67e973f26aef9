"""The tables of docs/speed.md: times next to peers, and memory."""

import re
from itertools import chain
from typing import Any

from cells import RESULTS, format_ratio, format_seconds, read, recorded_peak_memories, table, threads

from isopix.core.text import format_bytes

PEAK, RATE = "at the data-sheet peak", "at the measured rate"  # of peers that are bounds
MATRIX_RATE = f"{RATE} of matrix products"


def speed() -> str:
    """Return a table for each machine, of which the one measured last is the first."""
    files = results()
    machines = dict.fromkeys(each["device"] for each in reversed(files))
    return "\n".join(of_machine([each for each in files if each["device"] == name]) for name in machines)


def of_machine(files: list[dict[str, Any]]) -> str:
    """Return one row per task, next to the fastest peer."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for record in chain.from_iterable(found["benchmarks"] for found in files):
        for each in record["comparisons"]:
            tasks.setdefault(each["task"], []).append({**each, "item": record["item"]})
    counts = {each["n"] for of_task in tasks.values() for each in of_task}
    repeats = " to ".join(map(str, sorted({min(counts), max(counts)})))
    last = files[-1]
    title = f"On {last['device']}, {threads(last)}, torch {last['torch']}, {repeats} repeats:\n"
    columns = ("task", "isopix", "fastest peer", "ratio (range)", "of the matrix rate")
    return f"{title}\n{table(columns, map(row, tasks.values()))}"


def memory() -> str:
    """Return the peak memory of training steps: the smallest of isopix and of its peer."""
    rows = []
    for found in results():
        for record in found["benchmarks"]:
            if peaks := recorded_peak_memories(record["values"]):
                cells = (smallest(peaks, own=own) for own in (True, False))
                rows.append((record["comparisons"][0]["task"], *cells, found["device"]))
    return table(("task", "isopix", "peer", "device"), rows)


def smallest(peaks: dict[str, float | int], *, own: bool) -> str:
    taken, name = min((each, name) for name, each in peaks.items() if name.startswith("isopix") == own)
    return f"{format_bytes(taken)} ({name.removeprefix('isopix, ')})"


def results() -> list[dict[str, Any]]:
    """Return every file of speeds, with the benchmarks that no later file has of the same machine."""
    contents = [read(file.name) for file in sorted(RESULTS.glob("speed-*.json"))]
    for place, content in enumerate(contents):
        same = [other for other in contents[place + 1 :] if other["device"] == content["device"]]
        later = {each["name"] for other in same for each in measured(other)}
        content["benchmarks"] = [each for each in measured(content) if each["name"] not in later]
    return contents


def measured(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in found["benchmarks"] if each["state"] == "measured"]


def row(of_task: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the cells of a task; a bound is the fastest peer only if there is no other."""
    fastest = min(of_task, key=order)
    own = f"{format_seconds(fastest['isopix_seconds']['median'])}/{fastest['item']}"
    rates = [f"{each['speedup']:.0%}" for each in of_task if MATRIX_RATE in each["peer"]]
    peer = re.sub(r", (fp32|bf16|eager|compiled|batch \d+)|(?<=[a-z]) \d+\.\d\S*", "", fastest["peer"])
    return fastest["task"], own, peer, ratio(fastest), ", ".join(rates)


def order(comparison: dict[str, Any]) -> tuple[bool, bool, float]:
    peer = comparison["peer"]
    return RATE in peer, PEAK in peer, comparison["peer_seconds"]["median"]


def ratio(comparison: dict[str, Any]) -> str:
    """Return the ratio of the medians and, with repeats, its range: slowest against fastest repeat."""
    own, peer = comparison["isopix_seconds"], comparison["peer_seconds"]
    low, high = peer["min"] / own["max"], peer["max"] / own["min"]
    spread = f" ({format_ratio(low)} to {format_ratio(high)})" if comparison["n"] > 1 else ""
    return format_ratio(comparison["speedup"]) + spread

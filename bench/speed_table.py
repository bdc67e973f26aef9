"""The tables of docs/speed.md: times next to peers, and memory."""

from collections.abc import Iterator
from typing import Any

from cells import RESULTS, format_ratio, format_seconds, read, recorded_peak_memories, threads

from isopix.core.text import format_bytes

SIDES = ("isopix_seconds", "peer_seconds")


def speed() -> str:
    """Return one row per comparison on the machine that was measured last."""
    machine = results()[-1]["device"]
    found = [each for each in results() if each["device"] == machine]
    rows = [row(each, item) for content in found for each, item in comparisons(content)]
    head = ["| task | isopix | peer | time of the peer | ratio | n |", "|---|---|---|---|---|---|"]
    title = f"On {machine}, {threads(found[-1])}, torch {found[-1]['torch']}:\n"
    return "\n".join([title, *head, *rows, ""])


def memory() -> str:
    """Return the peak memory of training steps, of each variant of both sides."""
    rows = ["| task | machine | variant | memory |", "|---|---|---|---|"]
    for found in results():
        for record in measured(found):
            for variant, taken in recorded_peak_memories(record["values"]).items():
                task = record["comparisons"][0]["task"]
                rows.append(f"| {task} | {found['device']} | {variant} | {format_bytes(taken)} |")
    return "\n".join(rows) + "\n"


def results() -> list[dict[str, Any]]:
    """Return the content of every file of speeds; the last file has the benchmark of a machine."""
    files = sorted(RESULTS.glob("speed-*.json"))
    contents = [each for each in map(read, (file.name for file in files)) if "device" in each]
    for place, content in enumerate(contents):
        same = [other for other in contents[place + 1 :] if other["device"] == content["device"]]
        later = {each["name"] for other in same for each in measured(other)}
        if "benchmarks" in content:
            content["benchmarks"] = [each for each in measured(content) if each["name"] not in later]
    return contents


def measured(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in found.get("benchmarks", ()) if each["state"] == "measured"]


def comparisons(found: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each comparison and its item, of a file of run.py or of a single benchmark."""
    yield from ((each, "") for each in found.get("comparisons", ()))
    for record in measured(found):
        yield from ((each, f"/{record['item']}") for each in record["comparisons"])


def row(comparison: dict[str, Any], item: str) -> str:
    own, peer = (f"{format_seconds(comparison[side]['median'])}{item}" for side in SIDES)
    alternative = comparison.get("isopix_alternative")
    own += f" ({alternative})" if alternative else ""
    cells = [comparison["task"], own, comparison["peer"], peer, ratio(comparison), str(comparison["n"])]
    return f"| {' | '.join(cells)} |"


def ratio(comparison: dict[str, Any]) -> str:
    """Return the ratio of the medians and, with repeats, its range: slowest against fastest repeat."""
    own, peer = (comparison[side] for side in SIDES)
    low, high = peer["min"] / own["max"], peer["max"] / own["min"]
    spread = f" ({format_ratio(low)} to {format_ratio(high)})" if comparison["n"] > 1 else ""
    return format_ratio(comparison["speedup"]) + spread

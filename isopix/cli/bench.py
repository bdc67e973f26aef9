"""`isopix bench`: speed and correctness on the device at hand, next to the peers that are installed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.api.self_test import TINY
from isopix.benchmarks.growth_figure import plot_growth
from isopix.benchmarks.run import BenchmarkPlan, machine_record, run_benchmarks
from isopix.benchmarks.training import recorded_peak_memories
from isopix.cli.console import Device, Json, Positive, say, say_wrapped, show_json, show_table, warn
from isopix.core.device import select_device
from isopix.core.memory import reuse_freed_memory
from isopix.plots import style
from isopix.storage.atomic import write_json

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))

Only = Annotated[
    list[str] | None,
    Parameter(
        consume_multiple=True,
        negative="",
        help="Benchmarks whose names start with these words, e.g. training sampling.batch-4. Default: all.",
    ),
]
Repeats = Annotated[
    int | None,
    Parameter(
        validator=Positive,
        help="Measurements of each variant. Default: 5 (on GPUs up to 10).",
    ),
]
Minutes = Annotated[float | None, Parameter(help="Start no benchmark after N minutes.")]
Tiny = Annotated[
    bool,
    Parameter(
        negative="",
        help="Use the smallest sizes, to check that all benchmarks run; their times are not meaningful.",
    ),
]


def bench(
    *,
    only: Only = None,
    device: Device = "auto",
    repeats: Repeats = None,
    minutes: Minutes = None,
    tiny: Tiny = False,
    out: Path | None = None,
    json: Json = False,
) -> None:
    """Compare speed with transformers, scikit-learn and plain PyTorch, and check the results on this device.

    Each benchmark compares the outputs of isopix and of the other library, then times them alternately; the
    table has the fastest variant of each (eager or compiled, fp32 or bf16). A ratio below 1 means that isopix
    is slower. The JSON file is written after every benchmark, so that Ctrl-C keeps the finished ones. All of
    them take about half an hour on two cores. To compare with transformers: pip install 'isopix[bench]'

    Example: isopix bench --only training sampling --out speed.json

    Parameters
    ----------
    out
        JSON file: machine, versions, checks, seconds of all variants, and bytes of peak memory of training
        steps. The benchmark `growth` also writes its figure: NAME-growth.png.
    """
    reuse_freed_memory()
    plan = BenchmarkPlan(
        device=select_device(device), only=only or (), repeats=repeats, minutes=minutes, tiny=tiny
    )
    found: dict[str, Any] = {**machine_record(plan), "benchmarks": []}
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        wrong = f"{out} is a folder; give a file" if out.is_dir() else f"{out.parent} is not a folder"
        raise ValueError(f"--out {out}: {wrong}")
    try:
        for record in run_benchmarks(plan, started=lambda name: warn(f"{name} ...")):
            found["benchmarks"].append(record)
            if out is not None:
                write_json(out, found)
                _draw_growth(record, out)
    finally:
        if json:
            show_json(found)
        else:
            _print_benchmarks(found, out)
    failed = [each["name"] for each in found["benchmarks"] if each["state"] == "failed"]
    if failed:
        raise RuntimeError(f"failed: {', '.join(failed)}")
    if all(each["state"] == "skipped" for each in found["benchmarks"]):
        raise RuntimeError("all benchmarks were skipped")


def _draw_growth(record: Mapping[str, Any], out: Path) -> None:
    if record["name"] == "growth" and record["state"] == "measured":
        style.write_figure(plot_growth(record), out.with_name(f"{out.stem}-growth"), record)


def _print_benchmarks(found: Mapping[str, Any], out: Path | None) -> None:
    records: Sequence[Mapping[str, Any]] = found["benchmarks"]
    rows = [
        _row(comparison, record["item"])
        for record in records
        if record["state"] == "measured"
        for comparison in record["comparisons"]
    ]
    note = "; smallest sizes, the times are not meaningful" if found["size"] == TINY else ""
    title = f"isopix {found['isopix']}, {found['device']}, {found['threads']} threads, torch {found['torch']}"
    if rows:
        show_table(title + note, ["work", "peer", "isopix", "peer's", "ratio", "n"], rows)
    memory = [row for record in records if record["state"] == "measured" for row in _memory_rows(record)]
    if memory:
        show_table(
            "Peak memory of a training step, beyond weights and moments", ["benchmark", "step", "MiB"], memory
        )
    for record in records:
        if record["state"] == "measured":
            say_wrapped(f"{record['name']}: {record['checked']}")
            for alternative, error in record["errors"].items():
                say_wrapped(f"{record['name']}: {alternative} left out: {error}")
    for (state, reason), names in _not_measured(records).items():
        say_wrapped(f"{', '.join(names)}: {state}, {reason}")
    if out is not None and records:
        say(f"wrote {out}")


def _memory_rows(record: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (record["name"], variant, f"{value / 2**20:,.0f}")
        for variant, value in recorded_peak_memories(record["values"]).items()
    ]


def _not_measured(records: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """Return the names of the benchmarks that were not measured, by their state and reason."""
    found = defaultdict[tuple[str, str], list[str]](list)
    for record in records:
        if record["state"] != "measured":
            found[record["state"], record["reason"]].append(record["name"])
    return found


def _row(comparison: Mapping[str, Any], item: str) -> tuple[str, ...]:
    alternative = comparison["isopix_alternative"]
    times = [comparison[side]["median"] for side in ("isopix_seconds", "peer_seconds")]
    return (
        f"{comparison['task']}{f', {alternative}' if alternative else ''}",
        comparison["peer"],
        *(f"{format_seconds(each)}/{item}" for each in times),
        format_ratio(comparison["speedup"]),
        str(comparison["n"]),
    )


def format_ratio(ratio: float) -> str:
    """Format a ratio with two significant digits: `0.94×`, `1.3×`, `216×`."""
    return f"{ratio:.2g}×" if ratio < 100 else f"{ratio:.0f}×"


def format_seconds(seconds: float) -> str:
    """Format a time with three digits and its unit: `1.25 ms`."""
    scale, unit = next((each for each in UNITS if seconds >= each[0]), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"

"""`isopix bench`: speed and correctness on the device at hand, next to the peers that are installed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.benchmarks.run import BenchmarkPlan, machine_record, run_benchmarks
from isopix.cli.console import Device, Json, Positive, say, show_json, show_table, warn
from isopix.core.device import reuse_freed_memory, select_device
from isopix.plots import style
from isopix.plots.growth import plot_growth
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
        help="Measurements of each alternative. Default: 5; on CUDA 10, fewer where they take long.",
    ),
]
Minutes = Annotated[float | None, Parameter(help="Start no benchmark after N minutes.")]
Tiny = Annotated[
    bool, Parameter(negative="", help="The smallest sizes: shows that all works; the times mean nothing.")
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
    """Measure speed next to the peers that are installed, after a check of correctness on the device.

    Each benchmark compares the numbers of both sides, then times them in turn in this process; each side
    counts with its best alternative, such as eager and compiled. The file is written after every benchmark,
    so that Ctrl-C keeps those that are done. transformers, a peer, comes with: pip install 'isopix[bench]'

    Example: isopix bench --only training sampling --out speed.json

    Parameters
    ----------
    out
        JSON file with the machine, the versions, the checks, and the times of all alternatives; how the time
        grows with the size is drawn next to it.
    """
    reuse_freed_memory()
    plan = BenchmarkPlan(
        device=select_device(device), only=only or (), repeats=repeats, minutes=minutes, tiny=tiny
    )
    found: dict[str, Any] = {**machine_record(plan), "benchmarks": []}
    if out is not None and not out.parent.is_dir():
        raise ValueError(f"--out {out}: {out.parent} is not a folder")
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
    title = f"isopix {found['isopix']}, {found['device']}, {found['threads']} threads, torch {found['torch']}"
    if rows:
        show_table(title, ["work", "peer", "isopix", "peer's", "ratio", "n"], rows)
    for record in records:
        if record["state"] == "measured":
            say(f"{record['name']}: {record['checked']}")
            for alternative, error in record["errors"].items():
                say(f"{record['name']}: {alternative} left out: {error}")
        else:
            say(f"{record['name']}: {record['state']}, {record['reason']}")
    if out is not None and records:
        say(f"wrote {out}")


def _row(comparison: Mapping[str, Any], item: str) -> tuple[str, ...]:
    alternative = comparison["isopix_alternative"]
    times = [comparison[side]["median"] for side in ("isopix_seconds", "peer_seconds")]
    return (
        f"{comparison['task']}{f', {alternative}' if alternative else ''}",
        comparison["peer"],
        *(f"{format_seconds(each)}/{item}" for each in times),
        f"{comparison['speedup']:.2f}×",
        str(comparison["n"]),
    )


def format_seconds(seconds: float) -> str:
    """Format a time with three digits and its unit: `1.25 ms`."""
    scale, unit = next((each for each in UNITS if seconds >= each[0]), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"

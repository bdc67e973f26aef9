"""`isopix reproduce`: the experiments of the papers' tables and figures, measured next to published."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from isopix.analysis.cost import device_costs
from isopix.api.reproduction import PlannedTrial, plan_reproduction
from isopix.api.reproduction import reproduce as run_protocol
from isopix.cli.console import (
    Device,
    Json,
    Plugins,
    load_plugins,
    say,
    say_wrapped,
    show_json,
    show_table,
    warn,
)
from isopix.cli.parallel_tables import format_amount
from isopix.core.choices import MFU
from isopix.core.signals import STOPPED, Interrupted, with_resume_hint
from isopix.core.text import command_line
from isopix.studies.protocols.protocol import PROTOCOLS, find_protocol
from isopix.studies.protocols.reproduction import TrialState
from isopix.studies.protocols.write_up import ProtocolTable

LIST = "list"
REFERENCE_DEVICE = "A100"  # of the hours that a plan shows

ReproductionScale = Annotated[
    Literal["tiny", "small", "paper"],
    Parameter(
        help="tiny: minutes per network on two CPU cores; small: igpt.tiny and others; paper: as published."
    ),
]
Labeled = Annotated[
    str | None,
    Parameter(help="Labeled dataset, not those of the paper: a folder, .npz, Parquet, tar, Arrow or name."),
]
Unlabeled = Annotated[
    str | None, Parameter(help="Dataset of pre-training. Default: that of --data; at scale paper, ImageNet.")
]
Existing = Annotated[
    list[str] | None,
    Parameter(
        consume_multiple=True,
        negative="",
        help="Existing runs instead of pre-training, by network, e.g. igpt-l=runs/igpt-l.",
    ),
]
DryRun = Annotated[bool, Parameter(negative="", help="Show the trials and their cost; write nothing.")]


def reproduce(
    protocol: str,
    *settings: str,
    out: Path | None = None,
    scale: ReproductionScale = "tiny",
    data: Labeled = None,
    pretrain_data: Unlabeled = None,
    pretrained: Existing = None,
    dry_run: DryRun = False,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Run the experiment of a table or figure of a paper, and show measured next to published numbers.

    `isopix reproduce list` lists all protocols. Writes table.json, table.md and a page into a folder of the
    protocol in --out; protocols with the same --out share their networks. The same command resumes after an
    interruption.

    Example: isopix reproduce igpt.table4 --data cifar10 --scale small --out reproductions

    Parameters
    ----------
    protocol
        Name of the protocol, such as igpt.table4, or `list`.
    settings
        Settings of pre-training to override, as name=value.
    out
        Folder of trials and tables: new, empty, or that of the same setup to resume.
    """
    load_plugins(plugin)
    if protocol == LIST:
        _print_protocols(json=json)
        return
    find_protocol(protocol)  # raises ValueError for an unknown one
    common: dict[str, Any] = {
        "scale": scale,
        "data": data,
        "pretrain_data": pretrain_data,
        "pretrained": pretrained or (),
        "overrides": settings,
    }
    if dry_run:
        _print_plan(protocol, plan_reproduction(protocol, **common), json=json)
        return
    if out is None:
        raise ValueError("reproduce needs --out, or --dry-run")
    again, show = command_line(*sys.argv[1:]), warn if json else say

    def trial_ended(name: str, state: TrialState) -> None:
        show(f"{name}: {state.status}{': ' * bool(state.reason)}{state.reason}")

    with with_resume_hint(out, again):
        try:
            table = run_protocol(protocol, out=out, **common, device=device, progress=trial_ended)
        except Interrupted:
            show(f"stopped and saved; resume with: {again}")
            raise SystemExit(STOPPED) from None
    _print_table(table, json=json)
    failed = [name for name, each in table.record["trials"].items() if each["status"] != "done"]
    if failed:
        raise RuntimeError(f"failed: {', '.join(failed)}; retry with: {again}")


def _print_protocols(*, json: bool) -> None:
    if json:
        show_json({name: each.title for name, each in PROTOCOLS.items()})
    else:
        show_table(
            "Protocols", ["name", "experiment"], [(name, each.title) for name, each in PROTOCOLS.items()]
        )


def _print_plan(protocol: str, trials: list[PlannedTrial], *, json: bool) -> None:
    if json:
        show_json({"protocol": protocol, "trials": [each._asdict() for each in trials]})
        return
    rows = [(each.name, f"{each.trainings}", _flops(each.training_flops)) for each in trials]
    total = sum(each.training_flops for each in trials)
    show_table(f"Trials of {protocol}", ["trial", "trainings", "training FLOPs"], rows)
    hours = device_costs(total, "bf16", devices=[REFERENCE_DEVICE])[0].hours
    say_wrapped(
        f"total: {total:.3g} FLOPs, {format_amount(hours)} hours of one {REFERENCE_DEVICE} at {MFU:.0%} of "
        "its bf16 peak; searches that end early take less, and probes and evaluations are not counted"
    )


def _flops(flops: int) -> str:
    return f"{flops:.3g}" if flops else ""


def _print_table(table: ProtocolTable, *, json: bool) -> None:
    record = table.record
    if json:
        show_json({**record, "page": str(table.page)})
        return
    say_wrapped(record["statement"])
    columns = [each for each in table.columns if each != "model"]
    rows = [[*row[:-2], row[-1]] for row in table.rows]
    show_table(f"{record['protocol']}: {record['title']}", columns, rows)
    say(f"wrote {table.page}")

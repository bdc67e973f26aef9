"""`isopix claims`: what the papers claim, and which of it holds here."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from isopix.core.choices import MFU
from isopix.core.verb import VERBS, verb
from isopix.recipes.published import TableRow
from isopix.storage.provenance import CHECKOUT
from isopix.studies.inductive_bias.results import ClaimRecord
from isopix.studies.papers.results import ClaimsResult, PublishedRow
from isopix.studies.results import ReproductionResult, cell_text
from isopix.verbs.options import DeviceLike
from isopix.verbs.pretrain import same_command

RESULTS = CHECKOUT / "bench" / "results"
Paper = Annotated[Literal["igpt", "isotropic", "patchformer", "vit"] | None, "Claims of this paper only."]
Runs = Annotated[Path, "Folder of claims, studies and reproductions. Default: bench/results of a checkout."]
Budget = Annotated[str | None, "Time to train for claims that are not decided: 90s, 30m or 2h."]
SECONDS = {"s": 1, "m": 60, "h": 3600}
Data = Annotated[str | Path, "Labeled dataset."]


@verb()
def claims(
    paper: Paper = None,
    *,
    runs: Runs = RESULTS,
    budget: Budget = None,
    data: Data = "cifar10",
    device: DeviceLike = "auto",
) -> ClaimsResult:
    """List the claims and numbers of the papers: published, measured here, and whether they hold.

    Measured numbers are read from run folders, never typed. With --budget, networks are trained, those of
    the cheapest unfinished claim first; the same command continues.

    Example: isopix claims --runs results --budget 30m
    """
    from isopix.core.signals import with_resume_hint
    from isopix.studies.papers.claims import CLAIMS, evaluated, read_claims, train_claims
    from isopix.studies.papers.protocol import absolute

    source = str(absolute(data))
    if budget is not None:
        if runs == RESULTS and not runs.is_dir():
            raise ValueError("there is no bench/results, as in a checkout, to train in; give --runs")
        seconds, speed = _seconds(budget), _flops_per_second(device)
        with with_resume_hint(runs, same_command()):
            train_claims(runs / "claims", source, seconds, speed, partial(_run_verb, device))
    own = evaluated(CLAIMS, read_claims(runs / "claims", source))
    missing = () if runs.is_dir() else (f"{runs} is not there, so that nothing is measured; give --runs",)
    return ClaimsResult(
        folder=str(runs / "claims"),
        claims=tuple(each for each in own if paper in (None, each.source.partition(",")[0])),
        studies=_studies(runs) if paper in (None, "isotropic") else {},
        numbers=tuple(_published(runs, paper)),
        warnings=missing,
    )


def _seconds(budget: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget)
    if found is None:
        raise ValueError(f"budget is '{budget}'; allowed: a time such as 90s, 30m or 2h")
    return float(found[1]) * SECONDS[found[2]]


def _flops_per_second(device: DeviceLike) -> float:
    from isopix.core.device import native_precision, peak_flops, select_device
    from isopix.recipes.cost import matmul_throughput

    where = select_device(device)
    precision = native_precision(where)
    return MFU * (peak_flops(where, precision) or matmul_throughput(where, precision, width=128))


def _run_verb(device: DeviceLike, command: str, *given: object, **options: object) -> Path:
    return Path(VERBS[command].function(*given, device=device, **options).path)


def _studies(runs: Path) -> dict[str, Mapping[Any, tuple[ClaimRecord, ...]]]:
    """Return the ten claims of each study in a folder, by pool."""
    from isopix.studies.inductive_bias.claims import evaluate_trials
    from isopix.studies.inductive_bias.study import BiasStudy

    folders = [each.parent for each in sorted(runs.glob(f"*/{BiasStudy.file}"))]
    return {str(each): evaluate_trials(BiasStudy.open(each).done()) for each in folders}


def _published(runs: Path, paper: str | None) -> Iterator[PublishedRow]:
    """Yield the rows of every published table, with those of reproductions in a folder."""
    from isopix.recipes.cost import device_costs
    from isopix.studies.papers.protocol import Setup, all_protocols

    for protocol in all_protocols():
        if paper not in (None, protocol.name.partition(".")[0]):
            continue
        methods = {each.method for each in protocol.rows(Setup("paper"))}
        flops = sum(each.training_flops() for each in protocol.trials(Setup("paper")))
        [hours] = [each.hours for each in device_costs(flops, "bf16") if each.device == "A100"]
        reports = [ReproductionResult.read(each) for each in runs.glob(f"**/{protocol.name}/report.json")]
        measured = [row for each in reports for row in each.rows if row.measured]
        numbers = partial(_numbers, units=protocol.units)
        for row in protocol.published:
            same = [each for each in measured if each.method.partition(", scale ")[0] == row.method]
            ours = "; ".join(f"{numbers(each)} ({each.method}, {each.data})" for each in same)
            status = f"not run: {hours:,.0f} A100-hours for the table" if not ours else ""
            if row.method not in methods:
                status = "another method"
            place = f"{protocol.name}, {row.source}" if row.source else protocol.name
            yield PublishedRow(place, row.method, row.data, numbers(row), ours, status)


def _numbers(row: TableRow, units: Mapping[str, str]) -> str:
    """Return the cells of a row: `40 labels 26.8 ± 1.5, 250 labels 12.4 ± 0.6`."""
    texts = {name: cell_text(row, name, unit) for name, unit in units.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items() if text)

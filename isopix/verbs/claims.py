"""`isopix claims`: what the papers claim, and which of it holds here."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from isopix.core.choices import MFU
from isopix.core.verb import VERBS, verb
from isopix.storage.provenance import CHECKOUT
from isopix.studies.inductive_bias.results import ClaimRecord
from isopix.studies.papers.results import ClaimsResult, PublishedNumber
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

    Measured numbers are read from run folders, never typed. With --budget, networks are trained for the
    claims that are not decided, the cheapest first; the same command continues.

    Example: isopix claims --runs results --budget 30m
    """
    from isopix.core.signals import with_resume_hint
    from isopix.studies.papers.claims import CLAIMS, evaluated, read_claims, train_claims
    from isopix.studies.papers.protocol import absolute

    source = str(absolute(data))
    if budget is not None:
        seconds, speed = _seconds(budget), _flops_per_second(device)
        with with_resume_hint(runs, same_command()):
            train_claims(runs / "claims", source, seconds, speed, partial(_run_verb, device))
    chosen = [each for each in CLAIMS if paper in (None, each.paper)]
    own = evaluated(chosen, read_claims(runs / "claims", source))
    found = {f"Claims, from {runs / 'claims'}": tuple(own)} if own else {}
    if paper in (None, "isotropic"):
        found |= dict(_studies(runs))
    missing = () if runs.is_dir() else (f"{runs} is not there, so that nothing is measured; give --runs",)
    return ClaimsResult(claims=found, numbers=tuple(_numbers(runs, paper)), warnings=missing)


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


def _studies(runs: Path) -> Iterator[tuple[str, tuple[ClaimRecord, ...]]]:
    """Yield the ten claims of each study in a folder, by their pool."""
    from isopix.studies.inductive_bias.study import BiasStudy

    for file in sorted(runs.glob(f"*/{BiasStudy.file}")):
        for pool, own in BiasStudy.open(file.parent).claims().items():
            yield f"Convolutions, mixers and transformers, pool {pool}, from {file.parent}", own


def _numbers(runs: Path, paper: str | None) -> Iterator[PublishedNumber]:
    """Yield the cells of every published table, with those of reproductions in a folder."""
    from isopix.recipes.cost import device_costs
    from isopix.studies.papers.protocol import Setup, all_protocols

    for protocol in all_protocols():
        own = protocol.name.partition(".")[0]
        if paper not in (None, own):
            continue
        flops = sum(each.training_flops() for each in protocol.trials(Setup("paper")))
        [hours] = [each.hours for each in device_costs(flops, "bf16") if each.device == "A100"]
        reports = [ReproductionResult.read(each) for each in runs.glob(f"**/{protocol.name}/report.json")]
        measured = [row for each in reports for row in each.rows if row.measured]
        for row in protocol.published:
            for column in row.cells:
                text = partial(cell_text, column=column, unit=protocol.units.get(column, ""))
                ours = [
                    f"{text(each)} ({each.method}, {each.data})"
                    for each in measured
                    if each.method.partition(", scale ")[0] == row.method and column in each.cells
                ]
                status = "" if ours else f"not run: {hours:,.0f} A100-hours for the table"
                place = f"{protocol.name}, {row.source}" if row.source else protocol.name
                cell = (own, place, f"{row.method}, {row.data}", column)
                yield PublishedNumber(*cell, text(row), "; ".join(ours), status)

"""Run the registered analyses, in the order of their names."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from isopix.analysis.base import Analysis, AnalysisInput, Numbers
from isopix.analysis.results import AnalysisResult
from isopix.core.progress import track
from isopix.core.registry import import_modules, kinds_of
from isopix.core.table import Table
from isopix.core.text import did_you_mean
from isopix.plots import style

import_modules("isopix.analysis")


def registered_analyses() -> dict[str, Analysis]:
    """Return all analyses by name."""
    return {name: analysis() for name, analysis in sorted(kinds_of(Analysis).items())}


def select_analyses(only: Collection[str] = ()) -> dict[str, Analysis]:
    """Return the analyses of these names, by default all. Raises ValueError for an unknown name."""
    known = registered_analyses()
    for name in only:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"there is no analysis '{name}'; {hint}registered: {', '.join(known)}")
    return {name: analysis for name, analysis in known.items() if not only or name in only}


def analyze_network(
    given: AnalysisInput, only: Collection[str] = (), about: Mapping[str, Any] = MappingProxyType({})
) -> AnalysisResult:
    """Return the numbers of each selected analysis, with what they are `about` (step, data, split)."""
    selected = select_analyses(only)
    analyses, shown, reasons = dict[str, Numbers](), list[Table](), dict[str, str]()
    with track("analyses", len(selected)) as count:
        for number, (name, analysis) in enumerate(selected.items()):
            count(number)
            if reason := analysis.not_applicable_reason(given.network):
                reasons[name] = reason
                continue
            analyses[name] = json.loads(json.dumps({**analysis.compute(given), **about}))
            if table := analysis.table(analyses[name]):
                rows = [list(map(str, row)) for row in table.rows]
                shown.append(replace(table, columns=list(table.columns), rows=rows))
    return AnalysisResult(analyses=analyses, shown=tuple(shown), not_applicable=reasons)


def save_analyses(result: AnalysisResult, folder: Path, only: Collection[str]) -> AnalysisResult:
    """Write the figures and the record to a folder, where the results of other analyses than `only` stay."""
    analyses = dict(result.analyses)
    if only and (folder / "analyze.json").exists():
        earlier = AnalysisResult.read(folder / "analyze.json").analyses
        analyses |= {name: numbers for name, numbers in earlier.items() if name not in only}
    folder.mkdir(exist_ok=True)
    for name, analysis in select_analyses(only).items():
        stem = folder / name
        if name in analyses:
            style.write_figure(analysis.figure(analyses[name]), stem)
        else:
            for suffix in (".png", ".svg"):
                stem.with_suffix(suffix).unlink(missing_ok=True)
    return replace(result, analyses=analyses).saved(folder)

"""Run the registered analyses, in the order of their registration."""

from collections.abc import Collection, Iterator

from isopix.analysis import attention_analyses, embedding_analyses  # noqa: F401  registers them
from isopix.analysis.base import Analysis, AnalysisInput, NotApplicable, Numbers
from isopix.core.progress import track
from isopix.core.registry import kinds_of
from isopix.core.text import did_you_mean


def registered_analyses() -> dict[str, Analysis]:
    """Return all analyses by name."""
    return {name: analysis() for name, analysis in kinds_of(Analysis).items()}


def select_analyses(only: Collection[str] = ()) -> dict[str, Analysis]:
    """Return the analyses of these names, by default all. Raises ValueError for an unknown name."""
    known = registered_analyses()
    for name in only:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"there is no analysis '{name}'; {hint}registered: {', '.join(known)}")
    return {name: analysis for name, analysis in known.items() if not only or name in only}


def run_analyses(
    given: AnalysisInput, only: Collection[str] = ()
) -> Iterator[tuple[str, Numbers | NotApplicable]]:
    """Yield the name and the results of each selected analysis, or why it does not apply to the network."""
    selected = select_analyses(only)
    with track("analyses", len(selected)) as count:
        for number, (name, analysis) in enumerate(selected.items()):
            count(number)
            reason = analysis.not_applicable_reason(given.network)
            yield name, analysis.compute(given) if reason is None else NotApplicable(reason)

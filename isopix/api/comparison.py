"""Compare fine-tuned runs from Python: paired differences with their intervals."""

import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from isopix.api.arguments import PathLike, checked
from isopix.api.results import ComparisonOutput
from isopix.storage.atomic import write_json
from isopix.storage.provenance import with_provenance
from isopix.studies.comparison import (
    Comparison,
    compare_groups,
    find_runs,
    is_run,
    read_group,
    split_by_origin,
)

Group = list[str]  # run folders, folders of runs and patterns


@checked
def compare(
    *groups: PathLike | Sequence[PathLike],
    baseline: PathLike | Sequence[PathLike] | None = None,
    out: PathLike | None = None,
) -> ComparisonOutput:
    """Compare the test accuracy of groups of fine-tuned runs with that of a baseline, run by run.

    A group is a folder of runs, a pattern such as `runs/vit-*`, or a sequence of run folders; run folders
    that are arguments of their own are one group. In a group the runs differ in `seed` and in the draw of the
    labels (`data.seed`, `data.subset`) alone. Without a baseline, runs of pre-trained networks are compared
    with those from scratch in the same group. `out` is a JSON file to write.

    Raises ValueError if a run is not finished, if settings differ within a group, and unless each run has a
    counterpart with the same seed, labels, validation and test images.
    """
    compared = [_compare(each, _names(baseline)) for each in _groups(groups)]
    if not compared:
        raise ValueError("groups is empty; give run folders, folders of runs or patterns")
    path = None if out is None else Path(out)
    record = with_provenance({"comparisons": [each.as_record() for each in compared]})
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)
    return ComparisonOutput(compared, record, path)


def _compare(group: Group, baseline: Group) -> Comparison:
    name, runs = _title(group), find_runs(group)
    if not baseline:
        return compare_groups(*split_by_origin(name, runs))
    return compare_groups(read_group(name, runs), read_group(_title(baseline), find_runs(baseline)))


def _groups(given: Sequence[PathLike | Sequence[PathLike]]) -> list[Group]:
    groups = [_names(each) for each in given]
    runs = [group[0] for group in groups if len(group) == 1 and is_run(group[0])]
    return [*filter(None, [runs]), *(group for group in groups if group[0] not in runs)]


def _names(places: PathLike | Sequence[PathLike] | None) -> Group:
    if places is None:
        return []
    return [os.fspath(each) for each in ([places] if isinstance(places, str | os.PathLike) else places)]


def _title(group: Group) -> str:
    """Return the name of a folder or pattern, or what the names of several have in common."""
    names = [Path(each).name for each in group]
    common = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in common).rstrip("-_.* ") or names[0]

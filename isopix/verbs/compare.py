"""`isopix compare`: paired differences of test accuracy between groups of fine-tuned runs."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import BeforeValidator

from isopix.core.verb import verb
from isopix.studies.results import ComparisonResult
from isopix.verbs.options import PathLike

Groups = Annotated[
    PathLike,
    "Folders of runs or quoted patterns ('runs/vit-*'), each a group; run folders are one group.",
]
Baseline = Annotated[
    tuple[PathLike, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str | os.PathLike) else given),
    Parameter(consume_multiple=True),
    "Runs to compare with. Default: those from scratch, for the fine-tuned ones of the same group.",
]
Out = Annotated[Path | None, "JSON file to write."]


@verb()
def compare(*groups: Groups, baseline: Baseline = (), out: Out = None) -> ComparisonResult:
    """Compare fine-tuned runs with a baseline: paired differences of test accuracy.

    Each run is compared with the one of the same seed, labels and test images. The 95 % interval covers other
    seeds and draws of labels; that for new images covers other test images too.

    Example: isopix compare runs/vit-finetuned --baseline runs/vit-scratch
    """
    from isopix.studies.comparison import compare_with, groups_of

    if not groups:
        raise ValueError("groups is empty; give run folders, folders of runs or patterns")
    found = groups_of([os.fspath(each) for each in groups])
    others = [os.fspath(each) for each in baseline]
    result = ComparisonResult(comparisons=tuple(compare_with(each, others) for each in found))
    return result if out is None else result.saved(out)

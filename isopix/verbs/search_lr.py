"""`isopix search-lr`: search for the learning rate over a decreasing grid."""

import os
from pathlib import Path
from typing import Annotated, Any

from isopix.core.verb import verb
from isopix.runs.results import LRSearchResult
from isopix.verbs.options import (
    DeviceLike,
    Limit,
    PaletteFile,
    RecipeLike,
    RunSeed,
    Settings,
    SettingsFile,
    TrainingData,
)
from isopix.verbs.pretrain import run_options, same_command

Source = Annotated[
    os.PathLike[str] | RecipeLike,
    "Name from `isopix recipe list`, or run folder of a pre-trained network to fine-tune.",
]
Out = Annotated[Path, "Folder of the search: new, empty, or that of the same search to resume."]
MaxLR = Annotated[float, "Largest learning rate."]
MinLR = Annotated[float, "Smallest learning rate to try."]
Finetune = Annotated[
    bool,
    "Search for fine-tuning a recipe from scratch; run folders are always fine-tuned.",
]


@verb(slurm=True)
def search_lr(
    source: Source,
    *settings: Settings,
    out: Out,
    data: TrainingData = None,
    palette: PaletteFile = None,
    file: SettingsFile = None,
    limit: Limit = None,
    seed: RunSeed = None,
    finetune: Finetune = False,
    max_lr: MaxLR = 0.01,
    min_lr: MinLR = 0.00001,
    device: DeviceLike = "auto",
) -> LRSearchResult:
    """Search for the learning rate over a decreasing grid: 0.01, 0.003, 0.001, 0.0003 and so on.

    Trains one trial per learning rate, until the validation loss (of fine-tuning a run folder, the accuracy)
    is worse than before. Trials that diverge, or end no better than the unigram frequencies of the codes or
    the majority class, have failed. Test images are not used. The same command resumes an interrupted search.

    Example: isopix search-lr igpt.tiny --data photos/ --out runs/photos-lr steps=300
    """
    from isopix.core.device import select_device
    from isopix.core.signals import Interrupted, with_resume_hint
    from isopix.runs.series import lr_grid, require_no_lr, run_lr_search
    from isopix.runs.start import prepare_finetune, prepare_pretrain

    options = run_options(data, limit, seed, palette)
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    tuned = bool(name) and (finetune or Path(name).exists())
    if finetune and not name:
        raise ValueError("finetune=True needs a run folder or the name of a recipe")
    prepare: Any = prepare_finetune if tuned else prepare_pretrain
    start = prepare(name or source, settings, file=file, options=options)
    require_no_lr(start.recipe, settings)
    given = {"--data": data, "--palette": palette, "--file": file, "--limit": limit, "--seed": seed}
    words: list[object] = ["finetune" if tuned else "pretrain", name, *settings]
    words += [word for name, value in given.items() if value is not None for word in (name, value)]
    command = tuple(map(str, words)) if name else ()
    with with_resume_hint(out, same_command()):
        rates = lr_grid(max_lr, min_lr)
        result = run_lr_search(start, out, rates, device=select_device(device), words=command)
    if not result.finished:
        raise Interrupted(f"stopped and saved: {out}", result)
    return result

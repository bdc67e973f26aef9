"""Law of seeds: every random draw of the package is by the seed that was given for it."""

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import isopix
from isopix.core import random
from isopix.core.random import generator
from isopix.core.registry import kinds
from isopix.data.augment import PadCropFlip
from isopix.data.batches import Batches
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.data.splits import Split
from isopix.pretrained.images import sample_of_each
from tests.golden.values import check_golden
from tests.laws.test_options import call, shown
from tests.smoke.conftest import workplace
from tests.unit.data.shards import noise, whole

__all__ = ["workplace"]

PACKAGE = Path(isopix.__file__).parent
DATA, TRAIN, OPTION = 101, 202, 303
TRAINED = f"data.seed={DATA} depth=1 width=16 batch_size=8 log_every=1 evaluate_every=1 rows=8 cols=8 steps=2"
TRAINED += f" evaluate_images=8 num_test_images=8 precision=fp32 --seed {TRAIN} --device cpu"
CALLS = {  # a command, and the seed it is given for all but the choice of images and the initial weights
    f"pretrain igpt.digits --out ar block.dropout=0.1 limit=60 {TRAINED}": TRAIN,
    f"pretrain igpt.digits_bert --out bert --data photos num_colors=8 crop=random limit=20 {TRAINED}": TRAIN,
    f"finetune ar --out tuned --labels 5 finetune.residual_block=true augment=pad_crop_flip {TRAINED}": TRAIN,
    f"finetune bert --out masked {TRAINED}": TRAIN,
    f"evaluate masked --mask-ensemble 2 --seed {OPTION}": OPTION,
    f"evaluate bert --limit 8 --seed {OPTION}": OPTION,
    f"probe bert --mask-ensemble 2 --method ridge --seed {OPTION}": OPTION,
    f"probe ar --method adam epochs=2 --seed {OPTION}": OPTION,
    f"probe ar --method attentive iterations=2 --layer 1 --seed {OPTION}": OPTION,
    "probe ar --labels 2 --subsets 2 --method ridge": DATA,
    f"sample ar -n 2 --seed {OPTION}": OPTION,
    f"complete bert -n 2 --each 1 --mask random:0.5 --iterations 2 --seed {OPTION}": OPTION,
    f"reconstruct bert -n 2 --seed {OPTION}": OPTION,
    f"score ar --limit 8 --maps 1 --seed {OPTION}": OPTION,
    f"score bert --limit 8 --data photos --maps 1 --masks 2 --seed {OPTION}": OPTION,
    "analyze ar --limit 4": TRAIN,
    f"palette palette.npz --data photos --colors 4 --limit 8 --seed {OPTION}": OPTION,
}
OWN = {
    "data/load.py": DATA,
    "data/preprocess.py": DATA,
    "data/splits.py": DATA,
    "recipes/recipe.py": TRAIN,
}
# Other seeds that a place may have besides.
ALSO = {
    "data/splits.py sample": 0,  # evaluated images, the same for all runs
    "finetuning/classifier.py classifier": 0,  # weights that are then replaced by saved ones
    "probing/probe.py probe.vote": 0,  # few labels have one mask, and so no ties
    "runs/visibility.py visibility": 0,  # random codes and weights of a check
}
FIXED = {"runs/visibility.py visibility"}
NOT_CALLED = {  # what is fixed for all seeds, and trials, of which a test of the study compares seeds
    *(
        "recipes/cost.py",
        "objectives/objectives.py",
        "data/sources/named.py",
        "pretrained/model.py",
        "probing/patch_features.py",
    ),
    *("studies/inductive_bias/figures.py", "studies/inductive_bias/trial.py"),
}


def places() -> list[tuple[str, range]]:
    """Return the file and the lines of every call of the functions of `isopix.core.random`."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imports = [each for each in nodes if isinstance(each, ast.ImportFrom)]
        names = {n.asname or n.name for each in imports if each.module == random.__name__ for n in each.names}
        for each in nodes:
            if isinstance(each, ast.Call) and getattr(each.func, "id", "") in names:
                lines = range(each.lineno, (each.end_lineno or each.lineno) + 1)
                found.append((str(path.relative_to(PACKAGE)), lines))
    return found


@pytest.mark.usefixtures("unchecked", "workplace")
def test_every_draw_is_by_the_seed_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    draws: dict[str, set[int]] = defaultdict(set)
    drawn: dict[str, set[int]] = defaultdict(set)
    lines, number = set[tuple[str, int]](), random._number

    def recorded(seed: int, purpose: str, step: int) -> int:
        frame = sys._getframe(1)
        while not (file := frame.f_code.co_filename).startswith(str(PACKAGE)) or file == random.__file__:
            assert frame.f_back is not None
            frame = frame.f_back
        name = str(Path(file).relative_to(PACKAGE))
        lines.add((name, frame.f_lineno))
        draws[f"{name} {purpose.partition('/')[0].rstrip('.0123456789')}"].add(seed)
        return number(seed, purpose, step)

    monkeypatch.setattr(random, "_number", recorded)
    for words, given in CALLS.items():
        draws.clear()
        check_golden("seeds", words, shown(call(words.split(), monkeypatch)))
        for place, seeds in draws.items():
            drawn[place] |= seeds
            own = {} if words.startswith("palette") else OWN  # it has no other seed
            asked = own.get(place.partition(" ")[0], given)
            assert seeds - {ALSO.get(place)} <= {asked}, (words, place)
    assert {place for place, seeds in drawn.items() if seeds == {ALSO.get(place)}} == FIXED
    missed = {name for name, own in places() if not any(name == file and line in own for file, line in lines)}
    assert missed == NOT_CALLED


ORDER, SIDE = torch.arange(8), 24
IMAGES = torch.randint(0, 256, (1, 3, SIDE, SIDE), generator=generator(0, "test"), dtype=torch.uint8)
SAME = IMAGES.expand(8, -1, -1, -1)  # so that no order of images makes a difference
STORED = Split(SAME, ORDER, full_resolution=whole(*[noise(400, 500)] * 8))
Draw = Callable[[int], Sequence[Tensor]]


def data(seed: int, source: str = "digits", **settings: Any) -> list[Tensor]:
    """The images of each split by `data.seed`."""
    found = load_dataset(DataConfig(source=source, rows=8, cols=8, seed=seed, **settings))
    splits = [getattr(found, name) for name in ("train", "validation", "test")]
    return [each.images[:] for each in splits if len(each)]


def limited(seed: int) -> list[Tensor]:
    """The images that the `--limit` of a verb leaves."""
    found = load_dataset(DataConfig(source="digits", rows=8, cols=8, holdout=0.0))
    return [sample_of_each(replace(found, seed=seed), 20).train.images[:]]


def augmented(name: str, seed: int) -> list[Tensor]:
    return [kinds("augmentation")[name]().sample(STORED, ORDER, generator(seed, "augment"))]


def patches(name: str, seed: int) -> list[Tensor]:
    return [kinds("patch_augment")[name]().apply(SAME, 8, generator(seed, "augment"))]


DRAWS: dict[str, Draw] = {
    **{name: partial(augmented, name) for name in kinds("augmentation") if name != "none"},
    **{f"patches {name}": partial(patches, name) for name in kinds("patch_augment") if name != "none"},
    "flips": lambda seed: [replace(PadCropFlip(), pad=0).sample(STORED, ORDER, generator(seed, "augment"))],
    "batches": lambda seed: [Batches(STORED, batch_size=8, seed=seed, augment=PadCropFlip()).batch(0)[0]],
    "held out": data,
    "limit": partial(data, limit=20, holdout=0.0),
    "limit of a verb": limited,
    "limit of the unlabeled": partial(data, source="photos/cats", limit=5, holdout=0.0),
    "subset": partial(data, labels_per_class=4, holdout=0.0),
    "crop": partial(data, source="photos", crop="random", holdout=0.0),
}


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("name", DRAWS)
def test_what_is_drawn_is_of_the_seed_and_of_nothing_else(name: str) -> None:
    torch.manual_seed(0)
    one, other = DRAWS[name](1), DRAWS[name](2)
    torch.manual_seed(1)
    assert all(map(torch.equal, one, DRAWS[name](1)))
    assert not any(map(torch.equal, one, other))

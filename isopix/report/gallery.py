"""The pictures of a run with their captions, and in a missing one's place the command that makes it."""

import base64
import io
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from isopix.report import words
from isopix.report.headline import percent
from isopix.report.load_run import Drawing, Gathered

TITLES = {"samples": "Samples", "completions": "Completions", "reconstructions": "Reconstructions"}
KINDS = {"autoregressive": ("samples", "completions"), "masked": ("reconstructions",)}
MAKERS = {
    "samples": "isopix sample {} -n 16",
    "completions": "isopix complete {} -n 8 --each 3",
    "reconstructions": "isopix reconstruct {} -n 8",
}
INSTEAD = {
    "autoregressive": "An autoregressive model sees only what stands before a pixel and has nothing hidden to"
    " reconstruct: it draws images and completes them.",
    "masked": "A masked model sees all sides at once and cannot paint pixel by pixel: it fills in what is"
    " hidden.",
}


class Picture(NamedTuple):
    """An image of the page: its data, its size on the page, and what it shows."""

    source: str
    width: int
    height: int
    alt: str
    caption: str = ""


class Gallery(NamedTuple):
    """Pictures of one kind; without any, the `command` that makes one."""

    title: str
    pictures: list[Picture]
    command: str
    note: str = ""


def galleries(run: Gathered) -> list[Gallery]:
    """A gallery for each kind of picture that the objective allows, or that is there."""
    objective = words.objective(run.recipe)
    there = dict.fromkeys(str(drawing.facts["kind"]) for drawing in run.drawings)
    kinds = [*KINDS.get(objective, ()), *(kind for kind in there if kind not in KINDS.get(objective, ()))]
    return [_gallery(kind, run) for kind in kinds]


def instead(run: Gathered) -> str:
    """What a model of this objective cannot draw, and what it does instead."""
    return INSTEAD.get(words.objective(run.recipe), "")


def embed(png: bytes) -> str:
    """A PNG as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _gallery(kind: str, run: Gathered) -> Gallery:
    drawings = [drawing for drawing in run.drawings if drawing.facts["kind"] == kind]
    newest = [drawing for drawing in drawings if drawing.facts["step"] == drawings[-1].facts["step"]]
    older = len(drawings) - len(newest)
    note = (
        f"{older} of earlier steps {'is' if older == 1 else 'are'} in {run.path / 'samples'}."
        if older
        else ""
    )
    command = MAKERS.get(kind, "").format(shlex.quote(str(run.path)))
    named = {"code": words.code(run.recipe), "place": words.place(run.recipe)}
    return Gallery(TITLES.get(kind, kind), [_picture(kind, each, named) for each in newest], command, note)


def _picture(kind: str, drawing: Drawing, named: Mapping[str, str]) -> Picture:
    with Image.open(io.BytesIO(drawing.png)) as image:
        width, height = image.size
    describe = {"samples": _samples, "completions": _completions, "reconstructions": _reconstructions}.get(
        kind
    )
    caption = describe({**drawing.facts, **named}) if describe else drawing.name
    # Two pixels of the picture to one of the page: sharp on fine screens and in print.
    return Picture(
        embed(drawing.png), width // 2, height // 2, f"{TITLES.get(kind, kind)}: {caption}", caption
    )


def _samples(facts: dict[str, object]) -> str:
    return f"{_many(facts)} drawn from nothing, pixel by pixel, {_how(facts)}"


def _completions(facts: dict[str, object]) -> str:
    rows, each = facts.get("rows", "first"), facts.get("each", 1)
    drawn = f"{each} completions of each are" if each != 1 else "a completion of each is"
    return f"The top {rows} rows of {_many(facts)}{_source(facts)} are given; {drawn} drawn {_how(facts)}"


def _reconstructions(facts: dict[str, object]) -> str:
    accuracy, code = facts.get("accuracy"), facts["code"]
    right = f", {percent(accuracy)} of them exactly" if isinstance(accuracy, float) else ""
    named = "colour of each" if code == "pixel" else f"value of each hidden {code}"
    places, drawn = "pixels", ""
    if facts["place"] == "patch":
        places = "patches"
        drawn = " What it names is drawn back into the picture, beside what it should have named."
    return (
        f"In {_many(facts)}{_source(facts)} the mauve {places} are hidden; the model names the likeliest"
        f" {named}{right}.{drawn} {_when(facts)}."
    )


def _many(facts: dict[str, object]) -> str:
    count = facts.get("count", "some")
    return f"{count} image{'' if count == 1 else 's'}"


def _source(facts: dict[str, object]) -> str:
    data, split = facts.get("data"), facts.get("split")
    return f" from {Path(str(data)).name}{f' ({split})' if split else ''}" if data else ""


def _how(facts: dict[str, object]) -> str:
    names = {"temperature": "temperature", "top_k": "top-k", "top_p": "top-p"}
    given = [
        f"{name} {facts[key]:g}" for key, name in names.items() if isinstance(facts.get(key), int | float)
    ]
    return f"at {', '.join(given)}. {_when(facts)}." if given else f"by chance. {_when(facts)}."


def _when(facts: dict[str, object]) -> str:
    return f"Step {facts.get('step', 'unknown')}, seed {facts.get('seed', 'unknown')}"

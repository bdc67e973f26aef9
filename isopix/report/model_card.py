"""A model card: what Hugging Face shows of a model, in Markdown; every number is from the run folder."""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Literal

from isopix.interop.huggingface import snippet
from isopix.report import finetuning_section, headline, probes, words
from isopix.report.finetuning import classes_alone
from isopix.report.headline import best, percent
from isopix.report.load_run import Gathered
from isopix.report.summary import Row, summary

Values = Mapping[str, Any]

HEAD = """---
library_name: {library}
tags:
{tags}- isopix
- self-supervised
---
"""
VERSIONS = ("isopix", "torch", "python", "device")  # of environment.json
OURS = """```python
import numpy as np
from PIL import Image

import isopix

model = isopix.load({name})
picture = Image.open("picture.png").convert("RGB").resize(({cols}, {rows}))
images = np.asarray(picture)[None]
nats = model.nll(images)
features = model.features(images, layer={layer})
```"""
VERBS = "`nats` is the mean loss of a {graded}. The model can also {verbs}; see `help(model)`."
SIZE = (
    "It reads images of {rows} × {cols} pixels in {values}. An image of another shape is squeezed "
    "into this one; crop it first."
)
ALONE = "What it knows, and what it does not know, comes from these images alone: {data}."
UNKNOWN = "What it knows, and what it does not know, comes from images that nothing here shows."
ONE_RUN = "All numbers are of one run, with one seed."


Library = Literal["transformers", "isopix"]


def card(gathered: Gathered, *, name: str, library: Library) -> str:
    """The card of a run's model; what is not in its folder is left out.

    `name` is what the library's loader takes. Absolute paths are cut to their last part, for a card is
    public. Raises ValueError for an objective that `transformers` cannot use, if that is the library.
    """
    gathered, use = _public(gathered), USES[library]
    sections = {
        "What it is": list(_what(gathered)),
        "How good it is": list(_numbers(gathered, name)),
        "How to use it": use(gathered, name),
        "Limits": list(_limits(gathered)),
        "How it was made": list(_made(gathered)),
    }
    told = [f"## {title}\n\n" + "\n\n".join(parts) for title, parts in sections.items() if parts]
    return "\n".join(
        [
            HEAD.format(library=library, tags=_tags(gathered)),
            f"# {_plain(PurePath(name).name)}\n",
            "\n\n".join(told),
            "",
        ]
    )


def _tags(run: Gathered) -> str:
    """Image GPT's names for what has its colours and its blocks."""
    parts = {part: run.recipe.get(part) for part in ("codec", "block")}
    kinds = {part: value.get("kind") for part, value in parts.items() if isinstance(value, Mapping)}
    theirs = kinds == {"codec": "palette", "block": "transformer"}
    return "- image-gpt\n- imagegpt\n" if theirs else ""


def _what(run: Gathered) -> Iterator[str]:
    yield _plain(" ".join(headline.sentences(run)))
    if run.weights:
        weights = run.weights
        trained = run.environment.get("trained_parameters")
        part = f", of which {trained:,} were trained," if trained else ""
        many = f"{weights.parameters:,} parameters{part}"
        yield f"These are the {many} as they were after step {weights.step:,}."


def _numbers(run: Gathered, name: str) -> Iterator[str]:
    if answered := finetuning_section.accuracy(run):
        share, low, high, images = answered
        yield (
            f"Classes of {images:,} test images: **{percent(share)}** are answered, with the 95 % interval "
            f"{percent(low)} to {percent(high)}."
        )
    loss, graded, count = headline.held_out(run), words.graded(run.recipe), headline.uniform(run)
    if loss:
        chance = f" A network that has learnt nothing has {math.log(count):.3f}." if count else ""
        yield (
            f"Loss: **{loss.nats:.3f} nats a {graded}** ({loss.bits:.3f} bits), the mean over "
            f"{_plain(loss.graded)}.{chance}"
        )
    if run.probe is not None:
        probe, network = run.probe, run.probe["network"]
        data = _plain(probe["data"]) or "the run's own images"
        yield (
            f"Probe by {probes.method(probe)} on {data}{_reading(probe)}, at the layer that validation "
            "chose, with the 95 % interval over test images, beside controls that have learnt nothing:"
        )
        scored = [row for row in summary({PurePath(name).name: run}) if row.test is not None]
        yield _table(["features of", "layer", "test accuracy", "interval"], map(_cells, scored))
        yield "Every layer, 0 being what enters the first block:"
        rows = [[str(each["layer"]), percent(each["test_accuracy"])] for each in network["layers"]]
        if network.get("concat"):
            rows.append([probes.concatenated(network), percent(network["concat"]["score"]["test_accuracy"])])
        yield _table(["layer", "test accuracy"], rows)


def _cells(row: Row) -> list[str]:
    assert row.test is not None
    interval = "" if row.low is None or row.high is None else f"{percent(row.low)} to {percent(row.high)}"
    what = f"{row.name}, {row.what}" if row.kind == "shared" else row.name
    return [_plain(what), "" if row.layer is None else str(row.layer), percent(row.test), interval]


def _reading(probe: Values) -> str:
    """How the probe read the network, where that is recorded."""
    config = probe.get("config") or {}
    read = (f", {probes.setting(key, config)}" for key in probes.READ if key in config)
    return "".join(read) + probes.masks(probe)


def _with_transformers(run: Gathered, name: str) -> list[str]:
    kind, layer = words.objective(run.recipe), _layer(run)
    if kind != "autoregressive":
        raise ValueError(
            f"transformers runs autoregressive models alone; the objective of this one is {kind}"
        )
    return snippet.usage(name, layer=layer, depth=int(run.recipe["depth"]))


def _with_isopix(run: Gathered, name: str) -> list[str]:
    data, causal = run.recipe.get("data", {}), words.objective(run.recipe) == "autoregressive"
    snippet = OURS.format(name=repr(name), layer=_layer(run), rows=data.get("rows"), cols=data.get("cols"))
    if classes_alone(run.recipe):
        return [snippet.replace("nats = model.nll(images)\n", "")]
    verbs = "`sample` and `complete`" if causal else "`reconstruct`"
    return [snippet, VERBS.format(graded=words.graded(run.recipe), verbs=verbs)]


USES: dict[Library, Callable[[Gathered, str], list[str]]] = {
    "transformers": _with_transformers,
    "isopix": _with_isopix,
}


def _layer(run: Gathered) -> int:
    """The best of the probe that stands for the run, or else the middle one."""
    if run.probe is not None:
        return int(best(run.probe["network"])["layer"])
    return int(run.recipe["depth"]) // 2


def _limits(run: Gathered) -> Iterator[str]:
    data, count = run.recipe.get("data", {}), headline.levels(run)
    many = f"{count:,}" if count else "few"
    values = f"{many} colours" if words.code(run.recipe) == "pixel" else f"{many} levels a code"
    yield SIZE.format(rows=data.get("rows"), cols=data.get("cols"), values=values)
    if run.imported:
        yield UNKNOWN
    else:
        yield ALONE.format(data=_plain(str(data.get("source"))))
        yield ONE_RUN


def _made(run: Gathered) -> Iterator[str]:
    commands = [each["command"] for each in (run.environment, *run.probes) if each.get("command")]
    if commands:
        lines = dict.fromkeys(shlex.join(_last(str(word)) for word in command) for command in commands)
        yield "```sh\n" + "\n".join(lines) + "\n```"
    versions = [
        f"{name} {_plain(str(run.environment[name]))}"
        for name in VERSIONS
        if run.environment.get(name) is not None
    ]
    if versions:
        yield f"{', '.join(versions)}."
    if run.unreadable:
        yield f"Not readable when this card was made: {_plain('; '.join(run.unreadable))}."


def _public(run: Gathered) -> Gathered:
    """The run without the folders that its files lie in."""
    recipe = {
        key: _anonymous(part) if isinstance(part, Mapping) else part for key, part in run.recipe.items()
    }
    probes = [{**probe, "data": _last(str(probe["data"]))} for probe in run.probes]
    told = run.environment
    return replace(
        run,
        recipe=recipe,
        environment={key: _last(each) if key == "trained_on" else each for key, each in told.items()},
        probes=probes,
        verifications=[{**each, "data": _last(each["data"])} for each in run.verifications],
        unreadable=[each.split(":")[0] for each in run.unreadable],
    )


def _anonymous(part: Values) -> Values:
    return {key: _last(str(value)) if key == "source" and value else value for key, value in part.items()}


def _last(text: str) -> str:
    """What was given by its absolute path, alone or as `name=path`, by its name; any other text as it is."""
    before, equals, value = text.rpartition("=")
    return before + equals + (PurePath(value).name if value.startswith("/") else value)


def _plain(text: str) -> str:
    """Text in which Markdown and HTML see no marks, in one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", re.sub(r"\s*[\r\n]\s*", " ", text))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

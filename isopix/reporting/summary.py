"""The summary of runs: the main metric, a row for each with its baselines, and what cannot be compared; and
the model card of a run for Hugging Face, in Markdown.
"""

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import PurePath
from typing import Any, Literal

from isopix.core.overrides import flatten
from isopix.core.text import Table, printable, signed_points
from isopix.data.measurement import differences
from isopix.plots import curves
from isopix.probing.config import ProbeConfig
from isopix.probing.results import PIXEL_COMPONENTS, RAW_PIXELS, LayerScores, ProbeResult, baseline_title
from isopix.recipes.recipe import Recipe
from isopix.reporting import training
from isopix.reporting.results import RunRow, SummaryRow
from isopix.reporting.run_record import RunRecord, grouped_settings, public, value_text
from isopix.reporting.section import Panel, Section, figure_chart, join_words, render

# They move a score within its interval, or not at all.
UNCOMPARED = {"seed", "refit_on_validation", "concat"}


def headline(runs: Mapping[str, RunRecord]) -> tuple[str, str]:
    """Return the main metric of a run, or of the best of several, in a few words, and sentences about it."""
    if different := incomparable(runs):
        return f"{len(runs)} runs that cannot be compared", f"{different[0].upper()}{different[1:]}."
    probes = {name: run.probe for name, run in runs.items() if run.probe}
    parts, alone = list[tuple[str, str]](), len(runs) == 1
    if probes:
        best = max(probes, key=lambda name: probes[name].accuracy)
        of_several = f", the highest of {len(probes)}" if len(probes) > 1 else ""
        parts.append(_probed(probes[best], "" if alone else f" ({best}{of_several})"))
    for name, run in runs.items():
        if found := training.finetune_accuracy(run):
            bounds = f"95% interval {found.low:.1%} to {found.high:.1%}"
            of = "" if alone else f" ({name})"
            parts.append((f"Test accuracy after fine-tuning{of}: {found.accuracy:.1%}", bounds))
        if alone and (loss := training.held_out_loss(run)):
            unit = training.loss_unit(run)
            parts.append((f"{loss.split.capitalize()} loss: {loss.nats:.2f} nats per {unit}", ""))
    [(title, about), *others] = parts or [("Not evaluated yet", "")]
    sentences = [about, *(", ".join(filter(None, each)) for each in others)]
    return title, " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences if each)


def _probed(probe: ProbeResult, of: str) -> tuple[str, str]:
    text, layer = f"Probe test accuracy{of}: {probe.accuracy:.1%}", f"layer {probe.best.layer}"
    if probe.gain is None:
        return text, layer
    gain, low, high = map(signed_points, (probe.gain.difference, *probe.gain.interval))
    gained = f"{gain} points (95% interval {low} to {high})"
    return text, f"{layer}, {gained} relative to the best baseline, {probe.gain.baseline}"


def incomparable(runs: Mapping[str, RunRecord]) -> str:
    """Return why probes or fine-tuned accuracies of runs cannot be compared; empty if they can."""
    different = probe_differences([run.probe for run in runs.values() if run.probe])
    tuned = [found.measurement for run in runs.values() if (found := training.finetune_accuracy(run))]
    reasons = [f"probes differ in {join_words(different)}"] if different else []
    reasons += [f"fine-tuned accuracies in {join_words(others)}"] if (others := differences(tuned)) else []
    return "; ".join(reasons)


def probe_differences(probes: Sequence[ProbeResult]) -> list[str]:
    """Return the settings in which probes differ and which their scores depend on."""
    names = [each.name for each in fields(ProbeConfig) if each.name not in UNCOMPARED]
    found = [name for name in names if len({str(getattr(each.config, name)) for each in probes}) > 1]
    methods = ["settings of the method"] * (len({str(each.method) for each in probes}) > 1)
    return [*differences([each.measurement for each in probes]), *found, *methods]


def run_rows(runs: Mapping[str, RunRecord]) -> tuple[RunRow, ...]:
    """Return a row for each run, with the settings in which they differ."""
    different, rows = different_settings([run.settings for run in runs.values()]), []
    for number, (name, run) in enumerate(runs.items()):
        loss, tuned = training.held_out_loss(run), training.finetune_accuracy(run)
        own = {key: values[number] for key, values in different.items()}
        probe = run.probe.accuracy if run.probe else None
        found = (loss and loss.nats, probe, tuned and tuned.accuracy)
        rows.append(RunRow(name, run.num_steps, *found, own))
    return tuple(rows)


def different_settings(recipes: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the values of the settings in which recipes differ, by name."""
    flat = list(map(flatten, recipes))
    names = dict.fromkeys(key for settings in flat for key in settings if key != "name")
    values = {key: tuple(value_text(settings.get(key)) for settings in flat) for key in names}
    return {key: found for key, found in values.items() if len(set(found)) > 1}


def summary_rows(runs: Mapping[str, RunRecord]) -> list[SummaryRow]:
    """Return each run with its own baselines, then those that runs with comparable probes share."""
    rows: list[SummaryRow] = []
    shared: dict[SummaryRow, None] = {}
    comparable = not probe_differences([run.probe for run in runs.values() if run.probe])
    for name, run in runs.items():
        rows += _rows(name, run)
        common = [] if run.probe is None else list(_shared(run.probe))
        if comparable:
            shared |= dict.fromkeys(common)
        else:
            rows += [replace(row, kind="baseline") for row in common]
    return [*rows, *shared]


def _rows(name: str, run: RunRecord) -> Iterator[SummaryRow]:
    loss, classes = training.held_out_loss(run) if run.predicts_codes else None, training.uniform_classes(run)
    other = f", {loss.split} loss" if loss and loss.split != "test" else ""
    row = SummaryRow(name, "run", _learned(run) + other, loss and loss.nats)
    yield _scored(row, run.probe.network) if run.probe else row
    if tuned := training.finetune_accuracy(run):
        fine_tuned = SummaryRow("fine-tuned", description="class head", accuracy=tuned.accuracy)
        yield replace(fine_tuned, low=tuned.low, high=tuned.high)
    baselines = run.probe.baselines if run.probe else {}
    nats = math.log(classes) if classes and run.predicts_codes else None
    untrained = SummaryRow("untrained", description="same network", loss=nats)
    if "untrained" in baselines:
        yield _scored(untrained, baselines["untrained"])
    elif run.predicts_codes:
        yield untrained
    if losses := training.baseline_losses(run):
        lowest = min(losses, key=lambda each: losses[each])
        yield SummaryRow(lowest, description="learning-free", loss=losses[lowest])
    for baseline, found in baselines.items():
        if baseline not in ("untrained", RAW_PIXELS, PIXEL_COMPONENTS):
            yield _scored(SummaryRow(baseline, description="best layer"), found)


def _learned(run: RunRecord) -> str:
    if run.recipe and run.recipe.finetune:
        return run.recipe.finetune.label()
    return run.recipe.objective.label() if run.recipe and run.predicts_codes else ""


def _shared(probe: ProbeResult) -> Iterator[SummaryRow]:
    for name in (RAW_PIXELS, PIXEL_COMPONENTS):
        if found := probe.baselines.get(name):
            title = baseline_title(name, found.num_features)
            yield _scored(SummaryRow(title, "shared", f"no network, {probe.data}"), found)
    majority = probe.network.majority_accuracy
    yield SummaryRow("majority class", "shared", f"constant, {probe.data}", accuracy=majority)


def _scored(row: SummaryRow, scores: LayerScores) -> SummaryRow:
    best = scores.best
    layer = best.layer if len(scores.layers) > 1 else None
    return replace(row, layer=layer, accuracy=best.test_accuracy, low=best.interval[0], high=best.interval[1])


def summary_section(runs: Mapping[str, RunRecord], name: str) -> Section:
    """Return the table of runs and baselines, and the probes of several runs in one figure."""
    units = dict.fromkeys(training.loss_unit(run) for run in runs.values() if run.predicts_codes)
    notes = [
        "Accuracy: test accuracy of a probe of frozen features, or of the fine-tuned network, with its"
        f" 95% interval. Loss: per {' or '.join(units) or 'predicted code'}."
    ]
    losses = [loss for run in runs.values() if run.predicts_codes and (loss := training.held_out_loss(run))]
    if len({each.measurement.images_hash for each in losses}) > 1:
        notes.append("The losses cannot be compared, as they are of different images.")
    if different := incomparable(runs):
        notes.append(f"The accuracies cannot be compared: {different}.")
    panels = [Panel(summary=summary_rows(runs), notes=notes)]
    probes = {run: record.probe for run, record in runs.items() if record.probe}
    if len(probes) > 1 and not different:
        caption = "Test accuracy by layer. Bands: 95% intervals; rings: best layers on validation."
        numbers = {run: probe.record() for run, probe in probes.items()}
        panels.append(Panel([figure_chart(curves.plot_probe_accuracy(probes), numbers, name, caption)]))
    return Section("Runs and baselines", panels)


VERSIONS = ("isopix", "torch", "python", "device")  # of environment.json

Library = Literal["transformers", "isopix"]


def model_card(run: RunRecord, *, name: str, library: Library) -> str:
    """Return the card of a run's model, which a library loads as `name`, of the files that are there."""
    recipe = run.recipe
    if recipe is None:
        raise ValueError(f"{run.path} has no recipe that can be read, so it has no model card")
    loss, classes = training.held_out_loss(run) if run.predicts_codes else None, training.uniform_classes(run)
    uniform = {"uniform prediction": math.log(classes)} if classes else {}
    settings = [pair for group in grouped_settings(run).values() for pair in group]
    commands = public([run.environment.get("command"), run.probe and run.probe.call["command"]])
    text = render(
        "card.md.j2",
        run=run,
        recipe=recipe,
        library=library,
        usage=_usage(recipe) if library == "transformers" else "isopix",
        name=json.dumps(name),
        title=PurePath(name).name,
        tags=[tag for tag in recipe.model.codec.hub_tags if tag in recipe.model.block.hub_tags],
        settings=Table("", ["setting", "value"], settings).markdown(),
        accuracy=training.finetune_accuracy(run),
        trained=run.environment.get("trained_parameters"),
        loss=loss,
        bits=loss and loss.nats / math.log(2),
        unit=training.loss_unit(run),
        baselines=uniform | training.baseline_losses(run),
        layer=run.probe.best.layer if run.probe else recipe.model.depth // 2,
        values=recipe.model.codec.placeholder(recipe.grid).vocab_size,
        commands=list(dict.fromkeys(printable(shlex.join(words)) for words in commands if words)),
        versions=[f"{each} {run.environment[each]}" for each in VERSIONS if run.environment.get(each)],
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _usage(recipe: Recipe) -> str:
    if recipe.objective.can_sample:
        return "imagegpt"
    if recipe.model.codec.patch_size > 1:
        return "classifier" if recipe.finetune and recipe.finetune.has_class_loss else "vit"
    raise ValueError(
        "transformers supports autoregressive models and Vision Transformers only; the objective of this "
        f"one is {recipe.objective.label()}"
    )

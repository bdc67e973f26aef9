"""The headline: the main metric of runs, their baselines, and a diagnosis where training gained nothing."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from isopix.core.text import signed_points
from isopix.probing.results import RAW_PIXELS, Gain, LayerScore, ProbeResult
from isopix.reporting.metrics import (
    baseline_losses,
    epochs,
    finetune_accuracy,
    finetune_differences,
    format_epochs,
    held_out_loss,
    images_seen,
    loss_key,
    loss_unit,
    uniform_classes,
)
from isopix.reporting.probe_section import nondefault_settings, primary_probes, probe_differences
from isopix.reporting.run_record import RunRecord, SavedProbe
from isopix.reporting.section import join_words, percent

NEAR_UNIFORM = 0.95  # of ln K, the loss of a uniform prediction
FALLING = 0.99  # the loss fell by more than one per cent in the last quarter of the steps
SEPARABLE = 0.9  # accuracy of raw pixels that leaves little to learn
WIDE = 0.02  # half-width of an interval too wide to show the gains of small networks
BASELINES = ("untrained", RAW_PIXELS)  # the tables have all


def headline(runs: Mapping[str, RunRecord]) -> str:
    """Return the main metric of a run or of the best of several by their names, the baselines that are not
    worse, and the accuracies of fine-tuned runs.
    """
    probes, tuned = primary_probes(runs), _finetuned(runs)
    if different := probe_differences(list(probes.values())):
        start = f"{len(runs)} runs whose probes cannot be compared: they differ in"
        return f"{start} {join_words(different)}.{tuned}"
    if len(runs) == 1 and probes:
        (run,), (probe,) = runs.values(), probes.values()
        return f"{_probed(probe)}{_baselines(probe)}{tuned}{_loss(run)}"
    if probes:
        highest = _highest(probes, "" if len(probes) == len(runs) else "probed ")
        return f"{highest}{_against_baselines(probes)}{tuned}"
    if tuned:
        return tuned.strip()
    if len(runs) > 1:
        return f"{len(runs)} runs, not probed yet."
    (run,) = runs.values()
    return _loss(run).strip() or "Not evaluated yet."


def diagnosis(run: RunRecord) -> str:
    """Return likely reasons why no layer is significantly better than the untrained network's; or empty.

    Each reason is a number of the run itself.
    """
    probe = run.probe
    if probe is None or "untrained" not in probe.report.baselines:
        return ""
    if advantage(probe.report, "untrained") > 0:
        return ""
    reasons = [reason for reason in (_training(run), _separable(probe), _few_images(probe)) if reason]
    start = "No layer is significantly better than the untrained network"
    return f"{start}. Possible reasons: {'; '.join(reasons)}." if reasons else f"{start}; no reason found."


def advantage(report: ProbeResult, baseline: str) -> int:
    """Return 1 if the network is significantly better than a baseline, -1 if it is worse, otherwise 0.

    The paired difference to the best baseline decides, and if it is a gain, for all baselines. For others, a
    difference is significant if it exceeds the root sum of squares of the two half-widths: a test at 95 % for
    independent scores, and a stricter one for scores of the same images, as here.
    """
    gain, own, other = report.gain, report.network.best, report.baselines[baseline].best
    if gain is not None and (gain.baseline == baseline or gain.interval[0] > 0):
        return _sign(*gain.interval)
    difference = own.test_accuracy - other.test_accuracy
    half_width = math.hypot(*(max(_half_widths(score)) for score in (own, other)))
    return _sign(difference - half_width, difference + half_width)


def _sign(low: float, high: float) -> int:
    """Return the sign of all numbers of an interval; 0 if they have several."""
    return int(low > 0) - int(high < 0)


def _half_widths(score: LayerScore) -> tuple[float, float]:
    return score.test_accuracy - score.interval[0], score.interval[1] - score.test_accuracy


def _probed(probe: SavedProbe) -> str:
    """Return `Linear-probe test accuracy: 54.0 % at layer 3. Gain over the best baseline, ...`"""
    score, gain = probe.report.network.best, probe.report.gain
    start = f"{_accuracy(probe)}: {percent(score.test_accuracy)} at layer {score.layer}."
    if gain is None:
        return start
    name = "Gain over" if gain.difference >= 0 else "Difference from"
    return f"{start} {name} the best baseline, with 95\u00a0% interval: {_gain(gain)}."


def _highest(probes: Mapping[str, SavedProbe], probed: str) -> str:
    """Return `Highest linear-probe test accuracy of 3 runs: 85.7 % (conv), +48.1 points over untrained.`

    The accuracies of the others are in the table. `probed` is a word before `runs`, or empty.
    """
    name = max(probes, key=lambda each: probes[each].report.network.best.test_accuracy)
    report = probes[name].report
    accuracy = _accuracy(probes[name])
    among = f"Highest {accuracy[0].lower()}{accuracy[1:]} of {len(probes)} {probed}runs"
    start = among if len(probes) > 1 else accuracy
    gain = f", {_gain(report.gain)}" if report.gain else ""
    return f"{start}: {percent(report.network.best.test_accuracy)} ({name}){gain}."


def _accuracy(probe: SavedProbe) -> str:
    kind = "Linear-probe" if probe.has_default_method else "Probe"
    return f"{kind} test accuracy{nondefault_settings(probe)}"


def _gain(gain: Gain) -> str:
    """Return `+22.3 points (+19.1 to +25.6) over untrained`."""
    low, high = map(signed_points, gain.interval)
    preposition = "over" if gain.difference >= 0 else "from"
    return f"{signed_points(gain.difference)} points ({low} to {high}) {preposition} {gain.baseline}"


def _finetuned(runs: Mapping[str, RunRecord]) -> str:
    """Return ` Test accuracy after fine-tuning: 60.0 % (a), 63.2 % (b); 450 test images, majority class
    10.2 %.`, of one run with its 95 % interval, or why the runs cannot be compared; empty without any.
    """
    if different := finetune_differences(runs):
        return (
            f" Test accuracies after fine-tuning cannot be compared: they differ in {join_words(different)}."
        )
    tested = {name: found for name, run in runs.items() if (found := finetune_accuracy(run))}
    if not tested:
        return ""
    names = {name: f" ({name})" if len(runs) > 1 else "" for name in tested}
    shown = ", ".join(f"{percent(found.accuracy)}{names[name]}" for name, found in tested.items())
    if len(tested) == 1:
        [only] = tested.values()
        shown += f" (95\u00a0% interval {percent(only.low)} to {percent(only.high)})"
    images = _shared(f"{found.images_text} test images" for found in tested.values())
    majority = _shared(runs[name].environment.get("majority") for name in tested)
    about = [images, majority and f"majority class {percent(majority)}"]
    return f" Test accuracy after fine-tuning: {'; '.join([shown, *filter(None, about)])}."


def _shared(values: Iterable[Any]) -> Any:
    """Return what all have in common; None if they differ."""
    first, *others = dict.fromkeys(values)
    return None if others else first


def _baselines(probe: SavedProbe) -> str:
    """Return ` Baselines: untrained 27.9 %; raw pixels 47.1 % (better).`"""
    marks = {-1: " (better)", 0: " (not significantly different)", 1: ""}
    report = probe.report
    found = [
        f"{name} {percent(report.baselines[name].best.test_accuracy)}{marks[advantage(report, name)]}"
        for name in BASELINES
        if name in report.baselines
    ]
    return f" Baselines: {'; '.join(found)}." if found else ""


def _against_baselines(probes: Mapping[str, SavedProbe]) -> str:
    """Return ` All are significantly better than untrained. Baselines: raw pixels better than two.`"""
    beaten, found = [], []
    for baseline in BASELINES:
        reports = {name: probe.report for name, probe in probes.items() if baseline in probe.report.baselines}
        signs = {name: advantage(report, baseline) for name, report in reports.items()}
        better, equal = ([name for name, each in signs.items() if each == sign] for sign in (-1, 0))
        marks = [f"better than {join_words(better)}"] if better else []
        marks += [f"not significantly different from {join_words(equal)}"] if equal else []
        found += [f"{baseline} {', '.join(marks)}"] if marks else []
        beaten += [baseline] if len(reports) == len(probes) and not marks else []
    every = f" All are significantly better than {join_words(beaten)}." if beaten else ""
    return f"{every} Baselines: {'; '.join(found)}." if found else every


def _loss(run: RunRecord) -> str:
    loss, classes = held_out_loss(run), uniform_classes(run)
    if loss is None:
        return ""
    others = [f"uniform prediction {math.log(classes):.2f}"] if classes else []
    if baselines := baseline_losses(run):
        others.append(f"best learning-free baseline {baselines.nats[baselines.best]:.2f} ({baselines.best})")
    start = f" {loss.split.capitalize()} loss: {loss.nats:.2f} nats per {loss_unit(run)}"
    return f"{'; '.join([start, *others])}."


def _training(run: RunRecord) -> str:
    """Return that the run is short: a loss near that of a uniform prediction, or one that still falls."""
    if run.imported_from:
        return ""
    loss, classes, turns = held_out_loss(run), uniform_classes(run), epochs(run)
    seen = f"{images_seen(run):,} images{'' if turns is None else f' ({format_epochs(turns)} epochs)'}"
    if loss and classes and loss.nats > NEAR_UNIFORM * math.log(classes):
        return (
            f"after {seen} the loss is near that of a uniform prediction, {loss.nats:.2f} of"
            f" {math.log(classes):.2f} nats"
        )
    losses = [
        float(each[loss_key(run)]) for each in run.log if each["kind"] == "train" and loss_key(run) in each
    ]
    quarter = len(losses) // 4
    if not quarter:
        return ""
    before, after = sum(losses[-2 * quarter : -quarter]) / quarter, sum(losses[-quarter:]) / quarter
    if after < FALLING * before:
        return (
            f"after {seen} the training loss still fell, from {before:.2f} to {after:.2f} nats between the"
            " third and the last quarter"
        )
    return f"only {seen} were seen" if turns is not None and turns < 1 else ""


def _separable(probe: SavedProbe) -> str:
    pixels = probe.report.baselines.get(RAW_PIXELS)
    return (
        f"raw pixels alone reach {percent(pixels.best.test_accuracy)}"
        if pixels and pixels.best.test_accuracy > SEPARABLE
        else ""
    )


def _few_images(probe: SavedProbe) -> str:
    score, count = probe.report.network.best, probe.report.network.num_images.get("test")
    half = (score.interval[1] - score.interval[0]) / 2
    return "" if count is None or half < WIDE else f"{count:,} test images (±{100 * half:.1f} points)"

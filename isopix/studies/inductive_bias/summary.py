"""The first sentences of the study's page: effects, baselines and verdicts."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from isopix.reporting.section import join_words, percent

Values = Mapping[str, Any]

COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
POOL_DESCRIPTIONS = {
    "mean": "mean of the features over positions, the likely protocol of the paper",
    "grid4": "means of 4 × 4 cells, which keep the position of features",
}
BLOCKS = {
    "conv": "convolutions",
    "mixer": "mixers",
    "transformer-1": "transformers",
    "transformer-4": "transformers with four heads",
    "transformer-1-nopos": "transformers without positions",
}
VERBS = {  # of one claim, and of several
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "not decided": ("is not decided", "are not decided"),
    "cannot be judged": ("cannot be judged", "cannot be judged"),
}


def effects_headline(done: Sequence[Values]) -> str:
    """Return the mean accuracy of each block over the encodings and depths that all have."""
    means = _block_means(done, lambda trial: trial["pools"]["mean"]["test_accuracy"])
    if not means:
        return "No trial of this study is done yet."
    accuracies = [f"{BLOCKS.get(block, block)} {percent(value)}" for block, value in means.items()]
    return f"Mean probe accuracy: {join_words(accuracies)}."


def baselines_lead(done: Sequence[Values]) -> str:
    """Return losses and accuracies of the 4 x 4 grid by block, and the baselines."""
    losses = _block_means(done, lambda trial: trial["loss"])
    if not losses:
        return ""
    grid = _block_means(done, lambda trial: trial["pools"]["grid4"]["test_accuracy"])
    words = [f"{BLOCKS.get(block, block)} {nats:.2f} nats" for block, nats in losses.items()]
    accuracies = [f"{BLOCKS.get(block, block)} {percent(value)}" for block, value in grid.items()]
    untrained = {pool: mean(t["pools"][pool]["untrained"] for t in done) for pool in POOL_DESCRIPTIONS}
    pixels = mean(trial["pools"]["mean"]["raw_pixels"] for trial in done)
    return (
        f"Loss: {join_words(words)}. With a 4 × 4 grid of features: {join_words(accuracies)}. "
        f"Baselines: untrained networks {percent(untrained['mean'])} (grid {percent(untrained['grid4'])}), "
        f"all raw pixels {percent(pixels)}, chance {percent(done[0]['pools']['mean']['majority'])}."
    )


def verdicts_lead(claims: Mapping[str, Sequence[Values]], done: Sequence[Values]) -> str:
    """Return how many of the claims hold under each pool."""
    if not done:
        return ""
    sentences = []
    for pool, found in claims.items():
        verdicts = [claim["verdict"] for claim in found]
        counts = [
            f"{COUNTS[verdicts.count(each)]} {verbs[verdicts.count(each) != 1]}"
            for each, verbs in VERBS.items()
            if each in verdicts
        ]
        name = "the mean" if pool == "mean" else "the grid"
        sentences.append(f"With {name}, of the paper’s {COUNTS[len(found)]} claims {join_words(counts)}.")
    return " ".join(sentences)


def _block_means(done: Sequence[Values], value: Callable[[Values], float]) -> dict[str, float]:
    """Return the mean of `value` for each block, over the encodings and depths that all have."""
    blocks = list(dict.fromkeys(trial["block"] for trial in done))
    variants = [{(t["encoding"], t["depth"]) for t in done if t["block"] == block} for block in blocks]
    shared = set.intersection(*variants) if variants else set()
    if not shared:
        return {}
    return {
        block: mean(value(t) for t in done if t["block"] == block and (t["encoding"], t["depth"]) in shared)
        for block in blocks
    }

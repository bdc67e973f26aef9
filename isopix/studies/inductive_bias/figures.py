"""The paper's seven figures, and those of inductive biases and of claims, from the trials of a study."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from isopix.analysis.inductive_biases import uniform_receptive_field
from isopix.analysis.similarity import (
    LevelSimilarity,
    continuous_similarity,
    fourier_similarity,
    one_hot_similarity,
)
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.pool import Pool
from isopix.model.stems.pixels import FourierPixelEmbeddingSpec
from isopix.plots import study, style, svg
from isopix.plots.comparisons import ForestRow, plot_forest
from isopix.plots.embeddings import plot_level_similarity
from isopix.plots.images import png_bytes, reconstruction_grid
from isopix.plots.inductive_biases import compare_inductive_biases, plot_receptive_fields
from isopix.plots.study import PoolResults, TrialGroup
from isopix.plots.study_marks import block_order, display_name
from isopix.plots.style import Figure
from isopix.probing.baselines import PIXEL_COMPONENTS, RAW_PIXELS
from isopix.reporting.gallery import image_tag
from isopix.reporting.section import Chart, percent
from isopix.storage.atomic import replace_file, write_json
from isopix.studies.inductive_bias import captions
from isopix.studies.inductive_bias.bias_means import Measurements, example_biases
from isopix.studies.inductive_bias.claims_figure import claim_rows, row_numbers
from isopix.studies.inductive_bias.examples import Example
from isopix.studies.inductive_bias.trials import Trial, group_trials

SIGMAS = (0.1, 0.3, 1.0, 3.0)
LAYERS_DEPTH = 6  # largest depth whose layers are shown by encoding (the paper's figure 7)
LAYERS_BLOCKS = ("mixer", "transformer-1", "transformer-1-nopos")


def draw(
    trials: Sequence[Trial],
    examples: Sequence[Example],
    out: Path,
    *,
    measurements: Measurements | None = None,
    claims: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> list[Chart]:
    """Draw every figure that the trials and examples allow, save each in `out` as .png, .svg and .json, and
    return them in the paper's order. With `measurements` biases are means over seeds, not those of the
    examples; `claims`, those of claims.json by pool, are the last figure.
    """
    album, shown = _Album(out), _comparable(examples)
    pools = [_results(trials, pool) for pool in trials[0].probes] if trials else []
    if shown:
        album.reconstructions(shown)
    album.encodings()
    if pools:
        album.losses(pools, trials)
    if shown:
        album.learned_encodings(shown)
    album.depths_and_layers(pools, trials)
    if shown:
        album.biases(shown, measurements or {})
        album.receptive_fields(shown)
    if rows := claim_rows(claims or {}):
        album.claims(rows)
    return album.charts


def _comparable(examples: Sequence[Example]) -> list[Example]:
    """Return an example per block, all of the largest depth that every block has, in the order of blocks."""
    depths: dict[str, set[int]] = {}
    for each in examples:
        depths.setdefault(each.block, set()).add(each.depth)
    shared = set.intersection(*depths.values()) if depths else set()
    found = {each.block: each for each in examples if shared and each.depth == max(shared)}
    return [found[block] for block in block_order(found)]


def _results(trials: Sequence[Trial], pool: Pool) -> PoolResults:
    untrained = [
        replace(trial, probes={pool: replace(trial.probes[pool], network=trial.probes[pool].untrained)})
        for trial in trials
    ]
    return PoolResults(
        pool, group_trials(trials, pool), group_trials(untrained, pool), _baselines(trials, pool)
    )


def _baselines(trials: Sequence[Trial], pool: Pool) -> dict[str, float]:
    """Return the mean accuracies of baselines that are the same for all networks."""
    probes = [trial.probes[pool] for trial in trials]
    components = [each.pixel_components for each in probes if each.pixel_components is not None]
    found = {RAW_PIXELS: mean(each.raw_pixels.test_accuracy for each in probes)}
    if components:
        found[PIXEL_COMPONENTS] = mean(each.test_accuracy for each in components)
    return {**found, captions.CHANCE: mean(each.majority for each in probes)}


class _Album:
    """Saves figures and collects them as charts of the page."""

    def __init__(self, out: Path):
        self.out, self.charts = out, list[Chart]()

    def add(self, title: str, name: str, drawn: Figure, numbers: Mapping[str, Any], caption: str) -> None:
        style.write_figure(drawn, self.out / name, numbers)
        self.charts.append(
            Chart(svg.svg_markup(drawn, numbers, name=name, alt=caption), caption, "chart wide-chart", title)
        )

    def reconstructions(self, networks: Sequence[Example]) -> None:
        first = networks[0]
        predictions = {display_name(each.block): each.prediction for each in networks}
        picture = reconstruction_grid(first.original, first.pixel_mask, predictions, first.target)
        exact = ", ".join(f"{display_name(each.block)} {percent(each.exact)}" for each in networks)
        caption = (
            f"Figure 1. {len(first.original)} test images, inputs with masked pixels in gray-violet, and "
            f"reconstructions by one network per block, of {captions.network_size(networks)}. "
            f"Masked levels of these images predicted exactly: {exact}."
        )
        path = self.out / "figure-1.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, png_bytes(picture))
        numbers = {each.block: each.exact for each in networks}
        write_json(path.with_suffix(".json"), {"kind": "figure", "exact": numbers})
        tag = image_tag(path.read_bytes(), caption)
        self.charts.append(Chart(tag, caption, "chart wide-chart", "Reconstructions"))

    def encodings(self) -> None:
        draws = torch.randn(FourierPixelEmbeddingSpec().frequencies, generator=generator(0, "figure"))
        named = {
            "one-hot": one_hot_similarity(),
            "Fourier, σ = 1": fourier_similarity(draws),
            "continuous": continuous_similarity(),
        }
        caption = (
            "Figure 2. Cosine similarity of each pair of the 256 levels of a channel as encoded, before any "
            "learned layer; for continuous levels 1 − |p − q| / 255. "
            f"{captions.LEVELS_NOTE} {captions.INPUT_NOTE}"
        )
        self.add("Encodings", "figure-2", plot_level_similarity(named), _encodings(named), caption)
        swept = {f"σ = {sigma:g}": fourier_similarity(sigma * draws) for sigma in SIGMAS}
        caption = (
            f"Figure 3. Cosine similarity of Fourier features with the same {len(draws)} random frequencies "
            f"times σ. {captions.LEVELS_NOTE} Rank rises with σ, and ρ falls."
        )
        self.add("Fourier features", "figure-3", plot_level_similarity(swept), _encodings(swept), caption)

    def losses(self, pools: Sequence[PoolResults], trials: Sequence[Trial]) -> None:
        caption = (
            "Figure 4. Test accuracy against the validation loss at the end of training, a row per pool, a "
            f"column per encoding. {captions.PROBE_NOTE} {captions.sample_text(trials)}. A line connects "
            f"each network with itself before training (hollow). {captions.BASELINES_NOTE} "
            f"{' '.join(map(captions.findings, pools))}"
        )
        self.add("Loss and accuracy", "figure-4", study.plot_study_loss(pools), _numbers(pools), caption)

    def learned_encodings(self, networks: Sequence[Example]) -> None:
        named = {display_name(each.block): each.encoding for each in networks}
        caption = (
            "Figure 5. Cosine similarity of the learned vectors of each pair of levels of red, in one "
            f"network per block, of {captions.network_size(networks)}. {captions.LEVELS_NOTE} "
            f"{captions.trained_levels(networks[0])}"
        )
        numbers = _encodings({each.block: each.encoding for each in networks})
        self.add("Learned encodings", "figure-5", plot_level_similarity(named), numbers, caption)

    def depths_and_layers(self, pools: Sequence[PoolResults], trials: Sequence[Trial]) -> None:
        if any(trial.block == "conv" for trial in trials):
            for results in pools:
                self.depths(results, trials)
        shallow = {trial.block for trial in trials if trial.depth <= LAYERS_DEPTH}
        blocks = [block for block in LAYERS_BLOCKS if block in shallow]
        for results in pools if blocks else ():
            self.layers(results, trials, blocks)

    def depths(self, results: PoolResults, trials: Sequence[Trial]) -> None:
        pool = display_name(results.pool)
        caption = (
            f"Figure 6, {pool}. Top: test accuracy by depth. {captions.PROBE_NOTE} "
            f"{captions.sample_text(trials)}. Bottom: every layer of the convolutions, trained and untrained "
            f"(hollow). {captions.BASELINES_NOTE} {captions.best_layers(results)}"
        )
        drawn = study.plot_study_depth(results)
        self.add(f"Depth, {pool}", f"figure-6-{results.pool}", drawn, _numbers([results]), caption)

    def layers(self, results: PoolResults, trials: Sequence[Trial], blocks: Sequence[str]) -> None:
        pool = display_name(results.pool)
        depths = {block: study.deepest(results.trained, block, LAYERS_DEPTH) for block in blocks}
        drawn_trials = [trial for trial in trials if depths.get(trial.block) == trial.depth]
        caption = (
            f"Figure 7, {pool}. Test accuracy of linear probes of every layer of the deepest networks of a "
            f"block, up to {LAYERS_DEPTH} blocks, trained and untrained (hollow), a row per encoding; pale: "
            f"trained with the other encodings. Of {captions.sample_text(drawn_trials)}. "
            f"{captions.BASELINES_NOTE} {captions.last_layers(results, depths)}"
        )
        drawn = study.plot_study_layers(results, blocks, LAYERS_DEPTH)
        name = f"figure-7-{results.pool}"
        self.add(f"Layers by encoding, {pool}", name, drawn, _numbers([results]), caption)

    def biases(self, networks: Sequence[Example], measurements: Measurements) -> None:
        found = {each.block: example_biases(each, measurements) for each in networks}
        means = {block: each.means for block, each in found.items()}
        stds = {block: each.stds for block, each in found.items() if each.seeds > 1}
        caption = (
            f"Inductive biases by layer of networks of {captions.biases_sample(networks, found)}. Relative "
            "error of the features of shifted and of permuted images: 0 is equivariance, 1 no better than "
            "random pairs. Receptive field: mean distance at which a change of one pixel shows; gray line: "
            f"that of a change that shows equally at all positions. {captions.least_translation(means)}"
        )
        drawn = compare_inductive_biases(means, uniform=_uniform(networks[0]), stds=stds)
        numbers = {block: each._asdict() for block, each in found.items()}
        self.add("Inductive biases", "biases", drawn, numbers, caption)

    def claims(self, rows: Mapping[str, Sequence[ForestRow]]) -> None:
        self.add("Claims", "claims", plot_forest(rows), row_numbers(rows), captions.CLAIMS_NOTE)

    def receptive_fields(self, networks: Sequence[Example]) -> None:
        images = captions.count_changed_images(networks[0])
        last = {each.block: each.biases.receptive_field[-1] for each in networks}
        numbers = {
            block: {
                "fractions": field.fractions.tolist(),
                "samples": None if field.samples is None else field.samples.tolist(),
            }
            for block, field in last.items()
        }
        caption = (
            "Where a change of the center pixel shows after the last block, in one network per block, of "
            f"{captions.network_size(networks)}; mean over {images}, with one changed pixel each. "
            "Gray offsets were never sampled; at white ones the change is below the scale."
        )
        drawn = plot_receptive_fields(last)
        self.add("Receptive field of a pixel", "receptive_fields", drawn, numbers, caption)


def _uniform(example: Example) -> float:
    """Return the mean distance of a change that shows equally at all positions."""
    rows, cols = ((side + 1) // 2 for side in example.biases.receptive_field[-1].fractions.shape)
    return uniform_receptive_field(Grid(rows, cols)).mean_distance


def _encodings(named: Mapping[str, LevelSimilarity]) -> dict[str, Any]:
    return {
        name: {
            "distance_preservation": each.distance_preservation,
            "effective_rank": each.effective_rank,
            "similarity": each.similarity.tolist(),
        }
        for name, each in named.items()
    }


def _numbers(pools: Sequence[PoolResults]) -> dict[str, Any]:
    return {
        results.pool: {
            "baselines": dict(results.baselines),
            "networks": {
                f"{group.block}-{group.encoding}-{group.depth}": _record(group, before)
                for group, before in zip(results.trained, results.untrained, strict=True)
            },
        }
        for results in pools
    }


def _record(group: TrialGroup, before: TrialGroup) -> dict[str, Any]:
    return {
        "loss": group.loss._asdict(),
        "accuracy": group.accuracy._asdict(),
        "layers": [layer._asdict() for layer in group.layers],
        "untrained": group.untrained._asdict(),
        "untrained_layers": [layer._asdict() for layer in before.layers],
    }

"""The paper's seven figures and the inductive biases of its blocks, drawn from the trials of a study."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.analysis.inductive_biases import BiasMeasurements, measure_inductive_biases
from isopix.analysis.similarity import (
    LevelSimilarity,
    continuous_similarity,
    fourier_similarity,
    one_hot_similarity,
    stem_similarity,
)
from isopix.core.random import generator
from isopix.data.dataset import load_dataset
from isopix.generate.reconstruct import Reconstruction
from isopix.model.stems import FourierPixelEmbeddingSpec
from isopix.plots import study, style, svg
from isopix.plots.embeddings import plot_level_similarity
from isopix.plots.images import png_bytes, reconstruction_grid
from isopix.plots.inductive_biases import compare_inductive_biases, plot_receptive_fields
from isopix.plots.study import TrialGroup, display_name
from isopix.reporting.gallery import image_tag
from isopix.reporting.section import Chart
from isopix.runs.load import LoadedRun, load_run
from isopix.storage.atomic import replace_file, write_json
from isopix.studies.inductive_bias.metrics import BIAS_IMAGES, bias_numbers, reconstruct_masked
from isopix.studies.inductive_bias.regression import loss_and_accuracy
from isopix.studies.inductive_bias.trials import Trial, group_trials

SIGMAS = (0.1, 0.3, 1.0, 3.0)
DEPTH = 3  # of the example networks (the paper's figure 5)
LAYERS_DEPTH = 6  # largest depth whose layers are shown by encoding (the paper's figure 7)
NUM_PICTURES = 6


class BlockExample(NamedTuple):
    """A network that represents its block."""

    block: str
    loaded: LoadedRun
    reconstruction: Reconstruction
    encoding: LevelSimilarity  # of red
    biases: BiasMeasurements


def draw(trials: Mapping[Path, Trial], out: Path) -> list[Chart]:
    """Draw every figure that the trials (by run folder) allow, save each in `out` as .png, .svg and .json,
    and return them.
    """
    album, groups = _Album(out), group_trials(list(trials.values()))
    examples = list(_examples(trials))
    if examples:
        album.reconstructions(examples)
    album.encodings()
    if groups:
        album.losses(groups)
    if examples:
        album.learned_encodings(examples)
    if any(group.block == "conv" for group in groups):
        album.depths(groups)
    shallow = [group for group in groups if group.depth <= LAYERS_DEPTH]
    blocks = [block for block in ("mixer", "transformer-1") if any(each.block == block for each in shallow)]
    if blocks:
        album.layers(shallow, blocks)
    if examples:
        album.biases(examples)
    return album.charts


def _examples(trials: Mapping[Path, Trial]) -> Iterator[BlockExample]:
    """Yield per block a pix2vec network of the first seed, of the largest depth up to DEPTH that all have."""
    own = {
        run: trial for run, trial in trials.items() if trial.encoding == "pix2vec" and trial.depth <= DEPTH
    }
    blocks = list(dict.fromkeys(trial.block for trial in own.values()))
    depths = [{trial.depth for trial in own.values() if trial.block == block} for block in blocks]
    shared = set.intersection(*depths) if depths else set()
    for block in blocks if shared else ():
        runs = {
            trial.seed: run
            for run, trial in own.items()
            if trial.block == block and trial.depth == max(shared)
        }
        yield _example(block, runs[min(runs)])


def _example(block: str, run: Path) -> BlockExample:
    loaded = load_run(run, device=torch.device("cpu"))
    loaded.network.eval()
    recipe, network = loaded.recipe, loaded.network
    pictures = load_dataset(recipe.data).test.images
    return BlockExample(
        block,
        loaded,
        reconstruct_masked(loaded, pictures[:NUM_PICTURES], seed=0),
        stem_similarity(network.backbone.stem.value_table())[0],
        measure_inductive_biases(network, pictures[:BIAS_IMAGES], generator(0, "biases")),
    )


class _Album:
    """Saves figures and collects them as charts of the page."""

    def __init__(self, out: Path):
        self.out, self.charts = out, list[Chart]()

    def add(self, title: str, name: str, drawn: Any, numbers: Mapping[str, Any], caption: str) -> None:
        style.write_figure(drawn, self.out / name, numbers)
        self.charts.append(Chart(svg.svg_markup(drawn, name, caption), caption, "chart wide-chart", title))

    def reconstructions(self, networks: Sequence[BlockExample]) -> None:
        first = networks[0].reconstruction
        predictions = {display_name(each.block): each.reconstruction.prediction for each in networks}
        picture = reconstruction_grid(first.original, first.pixel_mask, predictions, first.target)
        caption = (
            "Figure 1. Test images, inputs with masked pixels in gray-violet, and reconstructions by networks"
            f" of {_size(networks)}; levels predicted exactly: {_exact(networks)}."
        )
        path = self.out / "figure-1.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, png_bytes(picture))
        exact = {each.block: each.reconstruction.accuracy for each in networks}
        write_json(path.with_suffix(".json"), {"kind": "figure", "exact": exact})
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
            "Figure 2. Cosine similarity of two levels of a channel before training, 0 at the top left. "
            "For continuous levels 1 − |p − q| / 255 is shown instead."
        )
        self.add("Encodings", "figure-2", plot_level_similarity(named), _encodings(named), caption)
        swept = {f"σ = {sigma:g}": fourier_similarity(sigma * draws) for sigma in SIGMAS}
        caption = (
            "Figure 3. Fourier features with the same frequencies times σ: a small σ preserves all distances "
            "in few dimensions, a large one separates all levels and preserves small distances only."
        )
        self.add("Fourier features", "figure-3", plot_level_similarity(swept), _encodings(swept), caption)

    def losses(self, groups: Sequence[TrialGroup]) -> None:
        found = loss_and_accuracy(groups)
        rho = "" if found is None else f" Rank correlation {found.spearman.rho:.2f}.".replace("-", "−")
        caption = (
            "Figure 4. Accuracy of the layer chosen on validation images against the final loss, a point per "
            f"architecture; bars: one standard deviation over seeds.{rho}"
        )
        self.add("Loss and accuracy", "figure-4", study.plot_study_loss(groups), _points(groups), caption)

    def learned_encodings(self, networks: Sequence[BlockExample]) -> None:
        named = {display_name(each.block): each.encoding for each in networks}
        caption = (
            "Figure 5. Cosine similarity of the learned vectors of two levels of red in networks of "
            f"{_size(networks)}. Distance preservation: rank correlation of similarity and nearness."
        )
        self.add("Learned encodings", "figure-5", plot_level_similarity(named), _encodings(named), caption)

    def depths(self, groups: Sequence[TrialGroup]) -> None:
        caption = (
            "Figure 6. The points of figure 4 by depth, and the test accuracy of every layer of the "
            "convolutions: mean and standard deviation over seeds."
        )
        self.add("Depth", "figure-6", study.plot_study_depth(groups), _points(groups), caption)

    def layers(self, groups: Sequence[TrialGroup], blocks: Sequence[str]) -> None:
        caption = (
            "Figure 7. Test accuracy of every layer of the deepest networks of a block, up to depth "
            f"{LAYERS_DEPTH}: mean and standard deviation over seeds."
        )
        drawn = study.plot_study_layers(groups, blocks)
        self.add("Layers by encoding", "figure-7", drawn, _points(groups), caption)

    def biases(self, networks: Sequence[BlockExample]) -> None:
        found = {each.block: each.biases for each in networks}
        caption = (
            f"Networks of {_size(networks)}, by layer: relative error of features of shifted and of permuted "
            "images, and the mean distance at which a change of one pixel shows."
        )
        numbers = {block: bias_numbers(each) for block, each in found.items()}
        drawn = compare_inductive_biases({block: each.by_layer() for block, each in found.items()})
        self.add("Inductive biases", "biases", drawn, numbers, caption)
        last = {block: each.receptive_field[-1] for block, each in found.items()}
        numbers = {block: {"fractions": field.fractions.tolist()} for block, field in last.items()}
        caption = (
            "Where a change of the center pixel shows after the last block, mean over images and positions."
        )
        drawn = plot_receptive_fields({block: field.fractions for block, field in last.items()})
        self.add("Receptive field of a pixel", "receptive_fields", drawn, numbers, caption)


def _size(networks: Sequence[BlockExample]) -> str:
    """Return the size of networks, as `3 blocks with pix2vec`."""
    depth = networks[0].loaded.recipe.model.depth
    return f"{depth} block{'s' * (depth != 1)} with pix2vec"


def _exact(networks: Sequence[BlockExample]) -> str:
    return ", ".join(f"{display_name(each.block)} {each.reconstruction.accuracy:.1%}" for each in networks)


def _encodings(named: Mapping[str, LevelSimilarity]) -> dict[str, Any]:
    return {
        name: {
            "distance_preservation": each.distance_preservation,
            "effective_rank": each.effective_rank,
            "similarity": each.similarity.tolist(),
        }
        for name, each in named.items()
    }


def _points(groups: Sequence[TrialGroup]) -> dict[str, Any]:
    return {
        f"{group.block}-{group.encoding}-{group.depth}": {
            "loss": group.loss._asdict(),
            "accuracy": group.accuracy._asdict(),
            "layers": [layer._asdict() for layer in group.layers],
        }
        for group in groups
    }

"""The paper's seven figures, and the biases of its three sorts of blocks, drawn from the cells of a study."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from markupsafe import Markup

from isopix.analysis import inductive_biases, similarity
from isopix.analysis.inductive_biases import Biases
from isopix.analysis.similarity import Encoding
from isopix.core.random import generator
from isopix.data.dataset import load as load_images
from isopix.generate.reconstruct import Reconstruction
from isopix.model.stems import Fourier
from isopix.plots import encodings, images, study, style, svg
from isopix.plots import inductive_biases as bias_plots
from isopix.report.gallery import embed
from isopix.runs.load import Loaded, load_run
from isopix.storage.atomic import write_json
from isopix.studies.inductive_bias.metrics import BIASED, reconstructed
from isopix.studies.inductive_bias.page import Shown
from isopix.studies.inductive_bias.regression import loss_and_accuracy
from isopix.studies.inductive_bias.trials import Cell, Group, groups

SIGMAS = (0.1, 0.3, 1.0, 3.0)
DEPTH = 3  # blocks of the networks that are shown (the paper's figure 5)
LAYERED = 6  # blocks of those whose layers are shown by encoding, at most (the paper's figure 7)
PICTURED = 6  # images


class Network(NamedTuple):
    """A network that stands for its block."""

    block: str
    loaded: Loaded
    reconstruction: Reconstruction
    encoding: Encoding  # of red
    biases: Biases


def draw(cells: Mapping[Path, Cell], out: Path) -> list[Shown]:
    """Draw every figure for which there are cells, by their run folders, and save each in `out` as .png, .svg
    and, with its numbers, .json.
    """
    album, there = _Album(out), groups(list(cells.values()))
    shown = list(_networks(cells))
    if shown:
        album.reconstructions(shown)
    album.encodings()
    if there:
        album.losses(there)
    if shown:
        album.learnt(shown)
    if any(group.block == "conv" for group in there):
        album.depths(there)
    layered = [group for group in there if group.depth <= LAYERED]
    blocks = [block for block in ("mixer", "transformer-1") if any(each.block == block for each in layered)]
    if blocks:
        album.layers(layered, blocks)
    if shown:
        album.biases(shown)
    return album.shown


def _networks(cells: Mapping[Path, Cell]) -> Iterator[Network]:
    """Of every block a pix2vec network of the first seed, of the largest depth up to three that all have."""
    own = {run: cell for run, cell in cells.items() if cell.encoding == "pix2vec" and cell.depth <= DEPTH}
    blocks = list(dict.fromkeys(cell.block for cell in own.values()))
    depths = [{cell.depth for cell in own.values() if cell.block == block} for block in blocks]
    shared = set.intersection(*depths) if depths else set()
    for block in blocks if shared else ():
        runs = {
            cell.seed: run for run, cell in own.items() if cell.block == block and cell.depth == max(shared)
        }
        yield _network(block, runs[min(runs)])


def _network(block: str, run: Path) -> Network:
    loaded = load_run(run, device=torch.device("cpu"))
    loaded.network.eval()
    recipe, backbone = loaded.recipe, loaded.network.backbone
    pictures = load_images(recipe.data, seed=recipe.train.seed).test.images
    stem: Any = backbone.stem  # torch's own type forgets its methods
    return Network(
        block,
        loaded,
        reconstructed(loaded.network, pictures[:PICTURED], seed=0),
        similarity.of_stem(stem.vectors())[0],
        inductive_biases.measure(backbone, pictures[:BIASED], generator(0, "biases")),
    )


class _Album:
    """Saves figures one after another, and keeps them as a page shows them."""

    def __init__(self, out: Path):
        self.out, self.shown = out, list[Shown]()

    def add(self, title: str, name: str, drawn: Any, numbers: Mapping[str, Any], caption: str) -> None:
        style.save(drawn, self.out / name, numbers)
        self.shown.append(Shown(title, svg.markup(drawn, name, caption), caption))

    def reconstructions(self, networks: Sequence[Network]) -> None:
        picture = images.compared({study.named(each.block): each.reconstruction for each in networks})
        caption = (
            "Figure 1. Test images, what was shown of them with hidden pixels in mauve, and what networks of "
            f"{_size(networks)} put there: {_exact(networks)} of the hidden levels are named exactly."
        )
        path = self.out / "figure-1.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
        exact = {each.block: each.reconstruction.accuracy for each in networks}
        write_json(path.with_suffix(".json"), {"kind": "figure", "exact": exact})
        source = embed(path.read_bytes())
        drawing = Markup('<img src="{}" width="{}" height="{}" alt="{}">').format(
            source, picture.width // 2, picture.height // 2, caption
        )
        self.shown.append(Shown("Reconstructions", drawing, caption))

    def encodings(self) -> None:
        draws = torch.randn(Fourier().frequencies, generator=generator(0, "figure"))
        named = {
            "one-hot": similarity.one_hot(),
            "Fourier, σ = 1": similarity.fourier(draws),
            "continuous": similarity.continuous(),
        }
        caption = (
            "Figure 2. How alike two levels of a channel are before anything is learnt, 0 at the top left. "
            "Of continuous levels, whose cosine would say nothing, 1 − |p − q| / 255 is shown."
        )
        self.add("Encodings", "figure-2", encodings.similarities(named), _told(named), caption)
        swept = {f"σ = {sigma:g}": similarity.fourier(sigma * draws) for sigma in SIGMAS}
        caption = (
            "Figure 3. Fourier features of the same draws times σ: a small σ keeps all distances and adds "
            "hardly a dimension, a large one tells all levels apart and keeps the distance of near ones."
        )
        self.add("Fourier features", "figure-3", encodings.similarities(swept), _told(swept), caption)

    def losses(self, there: Sequence[Group]) -> None:
        found = loss_and_accuracy(there)
        rho = (
            "" if found is None else f" Their rank correlation is {found.spearman.rho:.2f}.".replace("-", "−")
        )
        caption = (
            "Figure 4. Accuracy of the layer that validation chose against the loss at the end of training, "
            f"a point for each kind of network, bars a deviation over seeds.{rho}"
        )
        self.add("Loss and accuracy", "figure-4", study.against_loss(there), _points(there), caption)

    def learnt(self, networks: Sequence[Network]) -> None:
        named = {study.named(each.block): each.encoding for each in networks}
        caption = (
            "Figure 5. How alike the learnt vectors of two levels of red are in networks of "
            f"{_size(networks)}. Distance kept is the rank correlation of likeness and nearness."
        )
        self.add("What pix2vec learns", "figure-5", encodings.similarities(named), _told(named), caption)

    def depths(self, there: Sequence[Group]) -> None:
        caption = (
            "Figure 6. The same points by depth, and the test accuracy of every layer of the convolutions: "
            "mean and deviation over seeds."
        )
        self.add("Depth", "figure-6", study.by_depth(there), _points(there), caption)

    def layers(self, there: Sequence[Group], blocks: Sequence[str]) -> None:
        caption = (
            "Figure 7. Test accuracy of every layer of the deepest networks of a block, up to "
            f"{LAYERED}: mean and deviation over seeds."
        )
        drawn = study.by_layer(there, blocks)
        self.add("Layers by encoding", "figure-7", drawn, _points(there), caption)

    def biases(self, networks: Sequence[Network]) -> None:
        found = {each.block: each.biases for each in networks}
        caption = (
            f"Networks of {_size(networks)}, by layer: how far the features of shifted images are from the "
            "shifted features, the same for permuted pixels, and how far a change of one pixel shows."
        )
        numbers = {
            block: {
                "translation": each.translation,
                "order": each.order,
                "reach": [reach.mean for reach in each.reach],
                "radius": [reach.radius for reach in each.reach],
            }
            for block, each in found.items()
        }
        self.add("Biases by layer", "biases", bias_plots.by_layer(found), numbers, caption)
        last = {block: each.reach[-1] for block, each in found.items()}
        numbers = {block: {"shares": reach.shares.tolist()} for block, reach in last.items()}
        caption = (
            "Where a change of the pixel in the middle shows after the last block, a mean over images and "
            "places."
        )
        self.add("Reach of a pixel", "reach", bias_plots.maps(last), numbers, caption)


def _size(networks: Sequence[Network]) -> str:
    """`3 blocks with pix2vec`."""
    depth = networks[0].loaded.recipe.model.depth
    return f"{depth} block{'s' * (depth != 1)} with pix2vec"


def _exact(networks: Sequence[Network]) -> str:
    return ", ".join(f"{study.named(each.block)} {each.reconstruction.accuracy:.1%}" for each in networks)


def _told(named: Mapping[str, Encoding]) -> dict[str, Any]:
    return {
        name: {"preservation": each.preservation, "rank": each.rank, "similarity": each.similarity.tolist()}
        for name, each in named.items()
    }


def _points(there: Sequence[Group]) -> dict[str, Any]:
    return {
        f"{group.block}-{group.encoding}-{group.depth}": {
            "loss": group.loss._asdict(),
            "accuracy": group.accuracy._asdict(),
            "layers": [layer._asdict() for layer in group.layers],
        }
        for group in there
    }

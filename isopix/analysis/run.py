"""The analyses of a run: each a table of numbers to be kept, or in one line why there is nothing to tell."""

import base64
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from einops import rearrange
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from isopix.analysis import attention, filters, positions
from isopix.analysis import inductive_biases as biases
from isopix.codecs.base import Codec
from isopix.core.random import generator
from isopix.core.types import Grid, Images
from isopix.model.attention import AttentionAxis
from isopix.model.backbone import Backbone
from isopix.model.network import Network
from isopix.runs.load import Loaded

Numbers = dict[str, Any]
Place = tuple[int, int] | Literal["class"]  # row and column of a position, or the class token

DIGITS = 4  # significant ones of kept numbers
OF_VALUES = 8  # components of the vectors of a pixel's values
BIASES = 32  # images that these are measured on, at most: seven passes each


class DoesNotApplyError(ValueError):
    """Why an analysis has nothing to tell of a network."""


@dataclass(frozen=True)
class Subject:
    """A network in evaluation mode, images [B 3 H W] for it, and which of these is looked at from which
    positions.
    """

    loaded: Loaded
    images: Images
    image: int = 0
    places: tuple[Place, ...] = ()
    renormalise: bool = True
    done: Callable[[int], None] = lambda images: None

    @property
    def backbone(self) -> Backbone:
        return self.loaded.network.backbone

    @property
    def codec(self) -> Codec:
        return self.loaded.network.codec

    @property
    def looked(self) -> list[Place]:
        """Where it is looked from: as asked for, or else the class token, or without one a position in the
        lower middle, from which causal networks see most of the image. Raises ValueError for what is not
        there.
        """
        rows, cols = self.backbone.grid
        for place in self.places:
            if isinstance(place, str):
                if not self.backbone.num_prefix_tokens:
                    raise ValueError("position class is not there; this network has no class token")
            elif not (0 <= place[0] < rows and 0 <= place[1] < cols):
                raise ValueError(
                    f"position {place[0]},{place[1]} is not there; rows are 0 to {rows - 1}, columns 0 to "
                    f"{cols - 1}"
                )
        middle = (3 * rows // 4, cols // 2)
        return list(self.places) or [attention.CLASS if self.backbone.num_prefix_tokens else middle]


def analyse(subject: Subject) -> Iterator[tuple[str, Numbers | DoesNotApplyError]]:
    """Every analysis by its name: its numbers, or why it does not apply. Raises ValueError for a position or
    an image that is not there.
    """
    if not 0 <= subject.image < len(subject.images):
        raise ValueError(f"image {subject.image} is not there; images are 0 to {len(subject.images) - 1}")
    assert subject.looked
    for name, measure in ANALYSES.items():
        try:
            yield name, measure(subject)
        except DoesNotApplyError as why:
            yield name, why


def distance(subject: Subject) -> Numbers:
    """Attention distance of every head in pixels: mean and deviation over images."""
    _require_attention(subject)
    cell, causal = subject.codec.patch_size, _causal(subject)
    found = attention.distance_by_head(
        subject.loaded.network, subject.images, cell=cell, renormalise=subject.renormalise, done=subject.done
    )
    spread = found.std(-1, correction=min(1, found.shape[-1] - 1))
    each = zip(subject.backbone.attention_axes(), found.mean(-1).tolist(), spread.tolist(), strict=True)
    layers = []
    for (number, span), means, deviations in each:
        even = attention.uniform_distance(span.grid, cell=cell, causal=causal)
        heads = [
            {"pixels": mean, "deviation": deviation, "of_even": mean / even if even else 1.0}
            for mean, deviation in zip(means, deviations, strict=True)
        ]
        layers.append({"layer": _called(number, span), "heads": heads})
    return {
        **_where(subject),
        "images": len(subject.images),
        "renormalised": subject.renormalise,
        "even_distances": _even(subject),
        "layers": layers,
    }


def maps(subject: Subject) -> Numbers:
    """Where every head of every layer looks from some positions of one image."""
    found = _gaze(subject)
    squares = rearrange(found.heads, "q l a (h w) -> q l a h w", h=subject.backbone.grid.rows)
    queries = zip(subject.looked, squares, strict=True)
    return _of_image(subject) | {
        "attentions": [_called(number, span) for number, span in subject.backbone.attention_axes()],
        "queries": [{"position": p, "heads": _kept(each)} for p, each in queries],
    }


def rollout(subject: Subject) -> Numbers:
    """What reaches these places through all layers."""
    squares = rearrange(_gaze(subject).rollout, "q (h w) -> q h w", h=subject.backbone.grid.rows)
    queries = zip(subject.looked, squares, strict=True)
    return _of_image(subject) | {"queries": [{"position": p, "rollout": _kept(each)} for p, each in queries]}


def places(subject: Subject) -> Numbers:
    """How alike positions are to a network, and how 2-D: beside the same vectors shuffled, and untrained."""
    grid = subject.backbone.grid
    table = _place_vectors(subject.loaded.network)
    if not table.any():
        raise DoesNotApplyError("this network adds nothing that tells positions apart")
    alike = positions.similarity(table)
    shown = positions.maps(alike, grid)
    return {
        **_where(subject),
        **_plane(subject, alike),
        "rows": shown.rows,
        "cols": shown.cols,
        "maps": _kept(shown.values, 3),
    }


def embedding(subject: Subject) -> Numbers:
    """Principal components of what the stem embeds by: filters of patches, or vectors of values."""
    stem, cell = subject.backbone.stem, subject.codec.patch_size
    if stem.has_value_table:
        tables = filters.of_values(stem.value_table(), OF_VALUES)
        kept = [{"explained": _kept(each.explained), "along": _kept(each.along)} for each in tables]
        return {**_where(subject), "of": "values", "tables": kept, **_colours(subject.codec)}
    found = filters.filters(stem, cell)
    if found is None:
        raise DoesNotApplyError("this stem is not linear in the pixels of a patch: it has no filters")
    parts = filters.of_filters(found)
    shown = _kept(filters.patches(parts, cell), 3)
    return {**_where(subject), "of": "filters", "components": shown, "explained": _kept(parts.explained)}


def inductive_biases(subject: Subject) -> Numbers:
    """Errors under translation and permutation, and how far a change reaches, of every layer."""
    grid, images = subject.backbone.grid, subject.images[:BIASES]
    try:
        found = biases.measure(
            subject.loaded.network, images, generator(subject.loaded.recipe.train.seed, "biases")
        )
    except ValueError as error:  # a grid too small to be shifted
        raise DoesNotApplyError(str(error)) from None
    layers = [
        {"translation": moved, "order": order, "reach": reach.mean, "radius": reach.radius}
        for moved, order, reach in zip(found.translation, found.order, found.reach, strict=True)
    ]
    return {
        **_where(subject),
        "images": len(images),
        "even_reach": biases.even_reach(grid).mean,
        "layers": [{"layer": number, **layer} for number, layer in enumerate(layers)],
    }


ANALYSES: dict[str, Callable[[Subject], Numbers]] = {
    "attention-distance": distance,
    "attention-maps": maps,
    "rollout": rollout,
    "positions": places,
    "embedding": embedding,
    "biases": inductive_biases,
}


def _require_attention(subject: Subject) -> None:
    if not subject.backbone.has_attention_weights:
        kind = subject.loaded.recipe.model.block.kind
        raise DoesNotApplyError(f"a {kind} does not attend: there are no attention weights to look at")


def _causal(subject: Subject) -> bool:
    return subject.loaded.recipe.objective.causal


def _where(subject: Subject) -> Numbers:
    return {
        "step": subject.loaded.step,
        "grid": list(subject.backbone.grid),
        "cell": subject.codec.patch_size,
        "causal": _causal(subject),
    }


def _gaze(subject: Subject) -> attention.Gaze:
    _require_attention(subject)
    tokens = torch.tensor([_token(subject.backbone, place) for place in subject.looked])
    return attention.gaze(subject.loaded.network, subject.images[subject.image][None], tokens)


def _token(backbone: Backbone, place: Place) -> int:
    """Its number among all tokens."""
    if isinstance(place, str):
        return 0
    row, col = place
    return backbone.num_prefix_tokens + row * backbone.grid.cols + col


def _called(number: int, span: AttentionAxis) -> str:
    """An attention's name: `1`, or `1 rows` and `1 columns` where a block has two."""
    return f"{number} {span.name}".strip()


def _even(subject: Subject) -> Numbers:
    """The distance of attention that looks everywhere alike, by where it may look."""
    grid, cell = subject.backbone.grid, subject.codec.patch_size
    if _causal(subject):
        masked = attention.uniform_distance(grid, cell=cell, causal=True)
        return {"unmasked": attention.uniform_distance(grid, cell=cell), "as masked": masked}
    return {
        span.name or "everywhere": attention.uniform_distance(span.grid, cell=cell)
        for _, span in subject.backbone.attention_axes()
    }


def _of_image(subject: Subject) -> Numbers:
    content = io.BytesIO()
    pixels = rearrange(subject.images[subject.image], "c h w -> h w c").cpu().numpy()
    Image.fromarray(pixels).save(content, format="PNG")
    picture = base64.b64encode(content.getvalue()).decode()
    return {**_where(subject), "image_number": subject.image, "image": picture}


@torch.no_grad()
def _place_vectors(network: Network) -> Float[Tensor, "N D"]:
    """What is added at each position: what zero vectors become."""
    backbone, codec = network.backbone, network.codec
    codes = torch.zeros(1, codec.grid.positions, codec.num_codes, dtype=torch.long, device=network.device)
    embedded = backbone.patch_tokens(backbone.embed(network.inputs_of_codes(codes)))
    return backbone.positions(torch.zeros_like(embedded))[0]


def _plane(subject: Subject, alike: Float[Tensor, "N N"]) -> Numbers:
    """The score of two dimensions; of a grid that has only one, nothing."""
    grid, recipe = subject.backbone.grid, subject.loaded.recipe
    if min(grid) < 2:
        return {}
    shallow = recipe.updated(depth=1).build(subject.codec)  # what it adds does not depend on depth
    untrained = positions.similarity(_place_vectors(shallow.to(subject.loaded.network.device)))
    return {
        "plane": positions.plane(alike, grid)._asdict(),
        "untrained": positions.plane(untrained, grid)._asdict(),
        "shuffled": positions.chance(alike, grid, generator(recipe.train.seed, "shuffle"))._asdict(),
    }


def _colours(codec: Codec) -> Numbers:
    """What the codes of a palette look like."""
    if codec.num_codes > 1:
        return {}
    every = codec.decode(torch.arange(codec.vocab_size)[:, None, None], Grid(1, 1))
    return {"colours": every.flatten(1).cpu().tolist()}


def _kept(values: Tensor, digits: int = DIGITS) -> Any:
    """The numbers in lists, rounded to so many significant digits."""
    flat: list[Any] = [float(f"{value:.{digits}g}") for value in values.flatten().tolist()]
    for side in reversed(values.shape[1:]):
        flat = [flat[start : start + side] for start in range(0, len(flat), side)]
    return flat

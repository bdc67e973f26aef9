"""The evidence of a run: its probe, beside raw pixels, the same network untrained, and shuffled labels."""

from collections.abc import Callable

from isopix.core.device import Precision
from isopix.core.types import Images
from isopix.data.images import ImageSet
from isopix.interop.huggingface import unshifted
from isopix.model.backbone import Backbone
from isopix.runs.load import Loaded
from isopix.transfer.controls import examine
from isopix.transfer.evidence import Evidence, Protocol
from isopix.transfer.features import Features, extract, raw_pixels
from isopix.transfer.probe import Split, Splits

Progress = Callable[[str, int], None]  # whose features, and how many images are done


def evidence(
    loaded: Loaded,
    data: ImageSet,
    *,
    precision: Precision,
    protocol: Protocol,
    progress: Progress = lambda whose, done: None,
) -> Evidence:
    """Probe every layer of a run and of the controls on the same images (iGPT section 2.4).

    Raises ValueError where `data` has no labels, one class, or no images to choose by; RuntimeError if a
    chosen fit did not converge.
    """
    data.require_labels("probe")
    network = loaded.network
    enter = unshifted if protocol.reading == "huggingface" else _as_it_is
    untrained = loaded.recipe.build(network.codec).to(network.device)

    def states(backbone: Backbone, whose: str) -> Splits:
        def read(images: Images, before: int) -> Features:
            return extract(
                backbone,
                images,
                stream=protocol.stream,
                pool=protocol.pool,
                precision=precision,
                progress=lambda done: progress(whose, before + done),
            )

        return _splits(data, read)

    return examine(
        lambda: states(enter(network.backbone), "trained"),
        {
            "raw pixels": lambda: _splits(data, lambda images, before: raw_pixels(images)),
            "untrained": lambda: states(enter(untrained.backbone), "untrained"),
        },
        protocol=protocol,
        device=network.device,
    )


def _as_it_is(backbone: Backbone) -> Backbone:
    return backbone


def _splits(data: ImageSet, read: Callable[[Images, int], Features]) -> Splits:
    """What `read` makes of each split's images, and of how many came before them."""
    splits, before = [], 0
    for part in (data.train, data.validation, data.test):
        assert part.labels is not None, "require_labels has seen to it"
        splits.append(Split(read(part.images, before), part.labels))
        before += len(part)
    return Splits(*splits)

"""The evidence of a run: its probe, beside raw pixels, the same network untrained, and shuffled labels."""

from collections.abc import Callable

from isopix.core.device import Precision
from isopix.core.types import Images, Labels
from isopix.data.images import ImageSet
from isopix.model.backbone import Backbone
from isopix.recipes.load import Loaded
from isopix.transfer.evidence import Evidence, Protocol
from isopix.transfer.features import Features, extract, raw_pixels
from isopix.transfer.probe import Split, Splits, examine

Read = Callable[[Images], Features]
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
    untrained = loaded.recipe.build(network.codec).to(network.device)

    def reader(backbone: Backbone, whose: str) -> Read:
        seen = 0

        def read(images: Images) -> Features:
            nonlocal seen
            before, seen = seen, seen + len(images)
            return extract(
                backbone,
                images,
                stream=protocol.stream,
                pool=protocol.pool,
                precision=precision,
                progress=lambda done: progress(whose, before + done),
            )

        return read

    return examine(
        _splits(data, reader(network.backbone, "trained")),
        {
            "raw pixels": _splits(data, raw_pixels),
            "untrained": _splits(data, reader(untrained.backbone, "untrained")),
        },
        protocol=protocol,
        device=network.device,
    )


def _splits(data: ImageSet, read: Read) -> Splits:
    def split(images: Images, labels: Labels | None) -> Split:
        assert labels is not None, "require_labels has seen to it"
        return Split(read(images), labels)

    parts = (data.train, data.validation, data.test)
    return Splits(*(split(part.images, part.labels) for part in parts))

"""The evidence of a run: its probe, beside raw pixels, the same network untrained, and shuffled labels."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from isopix.core.device import Precision
from isopix.data.dataset import ImageSet
from isopix.probe.baselines import examine
from isopix.probe.feature_splits import Splits
from isopix.probe.results import Evidence, Protocol
from isopix.runs.feature_extraction import Note, Pixels, Source, States, splits, stored_splits
from isopix.runs.load import Loaded
from isopix.storage.atomic import write_json
from isopix.storage.provenance import record, tag
from isopix.storage.run_folder import RunFolder

Progress = Callable[[str, int], None]  # whose features, and how many images are done


def evidence(
    loaded: Loaded,
    data: ImageSet,
    *,
    precision: Precision,
    protocol: Protocol,
    progress: Progress = lambda whose, done: None,
    note: Note = lambda text: None,
) -> Evidence:
    """Probe every layer of a run and of the controls on the same images (iGPT section 2.4).

    A method that can do with 16 bits a number keeps the features in the cache and finds them there the next
    time; `note` is told. Raises ValueError where `data` has no labels, one class, or no images to choose by,
    and for masks or a layer that the network has not; RuntimeError if a chosen fit did not converge.
    """
    data.require_labels("probe")
    data.require_validation("a layer")
    network = loaded.network
    _refuse(loaded, protocol)
    untrained = loaded.recipe.build(network.codec).to(network.device).eval()

    def reading(source: Source, whose: str) -> Callable[[], Splits]:
        done = partial(progress, whose)
        if protocol.method.stored:
            return lambda: stored_splits(source, data, done, lambda text: note(f"{whose}: {text}"))
        return lambda: splits(source, data, done)

    return examine(
        reading(States(network, loaded.recipe, protocol, precision), "trained"),
        {
            "raw pixels": reading(Pixels(), "raw pixels"),
            "untrained": reading(States(untrained, loaded.recipe, protocol, precision), "untrained"),
        },
        protocol=protocol,
        device=network.device,
    )


def keep(run: RunFolder, step: int, found: Evidence, facts: dict[str, object]) -> Path:
    """Write the evidence into the run folder, and return where; `facts` tell which images it is of."""
    run.probes.mkdir(exist_ok=True)
    values = {"kind": "probe", "step": step, **facts, **found.to_dict()}
    settings = {"protocol": found.protocol, **facts}
    path = run.probes / f"probe-{step:08d}-{facts['data']}-{tag(settings)}.json"
    write_json(path, record(values))
    return path


def _refuse(loaded: Loaded, protocol: Protocol) -> None:
    if protocol.masks and not loaded.recipe.objective.masks_input:
        raise ValueError(f"masks is {protocol.masks}, but an autoregressive model hides nothing; allowed: 0")
    depth = loaded.network.backbone.depth
    if isinstance(protocol.layers, int) and protocol.layers > depth:
        raise ValueError(f"layer {protocol.layers} is not there; layers are 0 to {depth}")

"""Along: small probes that a run makes of itself while it trains: what it knows beside how it predicts."""

from typing import Any

import torch

from isopix.core.device import Precision
from isopix.data.dataset import ImageSet, Split
from isopix.model.network import Network
from isopix.probe.features import extract
from isopix.probe.probe import Split as Features
from isopix.probe.probe import Splits
from isopix.probe.probe import probe as fit
from isopix.probe.results import LayerScore, Protocol
from isopix.storage.atomic import write_json
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

LEARNT_FROM = 1000  # images of the training split; fewer if there are fewer
JUDGED_ON = 500  # validation images, after as many others by which strength and layer are chosen
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # one fifth of the work of a whole probe's

PROTOCOL = Protocol(strengths=STRENGTHS, weaker=())


def require(data: ImageSet) -> None:
    """Raises ValueError unless these images can be probed while a network trains on them."""
    data.require_labels("probe_every")
    if len(data.validation) < 2:
        raise ValueError(
            "probe_every chooses and judges by validation images, and there are "
            f"{len(data.validation)}; it needs two or more, as by data.holdout=0.1 and data.fold_back=false"
        )


def probe(run: RunFolder, step: int, network: Network, data: ImageSet, *, precision: Precision) -> Record:
    """Probe every layer of the network as it is, keep that in the run, and return a line for its log.

    Fitted to the first 1,000 training images; strength and layer are chosen by validation images, up to
    500, and the accuracy is that on as many others: the test images stay unseen. The same images and draws
    at every step. Nothing of the training is touched. A fit that fails makes a note, and not an end.
    """
    training = network.training
    network.eval()
    try:
        found = fit(_splits(network, data, precision), PROTOCOL, device=network.device)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        return {"kind": "note", "step": step, "text": f"no probe at step {step}: {reason}"}
    finally:
        network.train(training)
    facts = {"kind": "probe", "step": step, "split": "validation", "images": found.images["test"]}
    layers = [_told(score) for score in found.layers]
    run.along.mkdir(parents=True, exist_ok=True)
    counts = {"fitted_to": found.images["train"], "chosen_by": found.images["validation"]}
    rest = {"best": found.best, "classes": found.classes, "majority": found.majority, "layers": layers}
    write_json(run.along / f"step-{step:08d}.json", {**facts, "kind": "probe along", **counts, **rest})
    return {**facts, **layers[found.best]}


def forget_after(run: RunFolder, step: int) -> None:
    """Remove the probes of later steps, which a resumed run makes again."""
    for path in run.along.glob("step-*.json"):
        if int(path.stem.removeprefix("step-")) > step:
            path.unlink()


def _splits(network: Network, data: ImageSet, precision: Precision) -> Splits:
    def read(part: Split) -> Features:
        assert part.labels is not None, "require has seen to it"
        return Features(extract(network, part.images, precision=precision), part.labels)

    half = min(JUDGED_ON, len(data.validation) // 2)
    judged = data.validation.take(torch.arange(half, 2 * half))
    return Splits(read(data.train.first(LEARNT_FROM)), read(data.validation.first(half)), read(judged))


def _told(score: LayerScore) -> dict[str, Any]:
    return {
        "layer": score.layer,
        "strength": score.strength,
        "accuracy": score.test,
        "low": score.low,
        "high": score.high,
    }

"""Make a model that comes with the package from a finished run: weights rounded to bf16, records, and a card.

    python bench/ship_model.py runs/igpt.digits igpt.digits-trained

Optimizer, pictures and absolute paths are left out. The test loss of the rounded weights is measured on the
images of the run, and must not differ by more than 0.005 nats per code. A linear probe (`isopix probe RUN`)
comes along if there is one.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from isopix.data.load import load_dataset
from isopix.model.network import Network
from isopix.probing.results import ProbeResult
from isopix.reporting.run_record import read_run
from isopix.reporting.summary import model_card
from isopix.runs.image_lists import leave_out_seen
from isopix.runs.load import SHIPPED, LoadedRun, load_run, newest_checkpoint
from isopix.storage import checkpoint
from isopix.storage.log import read_log
from isopix.storage.run_folder import SEEN, RunFolder
from isopix.train.evaluator import evaluate_split
from isopix.train.tasks import PretrainTask

TOLERANCE = 0.005  # nats per code
LOG_EVERY = 10  # lines of training
ABSOLUTE = re.compile(r"(?<![\w.])/(?:[^\s/'\"]+/)+([^\s/'\"]+)")


def main() -> None:
    folder = ship(Path(sys.argv[1]), SHIPPED / sys.argv[2])
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"wrote {folder}: {size / 1e6:.2f} MB")


def ship(run: Path, out: Path) -> Path:
    """Write the model of a run. Raises ValueError for a run that is not finished, and if rounding shows."""
    loaded = load_run(run, device=torch.device("cpu"))
    log = read_log(RunFolder(run).log)
    tested = [each for each in log if each["kind"] == "evaluation" and each.get("split") == "test"]
    if not tested:
        raise ValueError(f"{run} has no test loss; resume it to its end")
    round_weights(loaded.network)
    config = loaded.recipe.train
    data, _ = leave_out_seen(load_dataset(loaded.recipe.data), loaded.seen)
    test = data.test.sample(config.num_test_images)
    found = evaluate_split(PretrainTask(loaded.model), test, seed=config.seed, precision=config.precision)
    loss, before = found["loss_nats"], tested[-1]["loss_nats"]
    if len(test) != tested[-1]["images"] or abs(loss - before) > TOLERANCE:
        raise ValueError(
            f"the loss of the rounded weights is {loss:.4f} on {len(test)} images, not {before:.4f}"
        )
    shutil.rmtree(out, ignore_errors=True)
    write_run(run, out, loaded.network, log)
    facts = model_facts(RunFolder(out), loaded, loss, len(test))
    write(out / "model.json", facts)
    (out / "README.md").write_text(model_card(read_run(RunFolder(out)), name=out.name, library="isopix"))
    return out


def round_weights(network: Network) -> None:
    """Round the weights to bf16; the codec is not rounded."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.bfloat16())


def write_run(run: Path, out: Path, network: Network, log: list[dict[str, Any]]) -> None:
    source, target = RunFolder(run), RunFolder(out)
    saved = checkpoint.load_checkpoint(newest_checkpoint(run), ())
    weights = dict(network.named_parameters())
    tensors = {
        name: tensor.detach().bfloat16() if name in weights else tensor
        for name, tensor in network.tensors().items()
    }
    target.checkpoints.mkdir(parents=True)
    records = {name: public(record) for name, record in saved.records.items()}
    checkpoint.save_checkpoint(target.checkpoints / saved.path.name, {"model": tensors}, records)
    for path in (source.recipe, source.environment):
        write(out / path.name, public(json.loads(path.read_text())))
    shutil.copyfile(source.path / SEEN, target.path / SEEN)
    kept = [each for each in log if each["kind"] != "train" or each["step"] % (LOG_EVERY * 10) == 0]
    target.log.write_text("".join(f"{json.dumps(public(each))}\n" for each in kept))
    target.probes.mkdir()
    for path in sorted(source.probes.glob("*.json")):
        write(target.probes / path.name, public(json.loads(path.read_text())))


def model_facts(run: RunFolder, loaded: LoadedRun, loss: float, images: int) -> dict[str, Any]:
    baselines = next(
        each["nats"]
        for each in read_log(run.log)
        if each["kind"] == "baselines" and each["held_out"] == "test"
    )
    probes = [ProbeResult.read(path) for path in sorted(run.probes.glob("probe-*.json"))]
    best = max(probes[-1].baseline_accuracies.items(), key=lambda each: each[1]) if probes else None
    return {
        "objective": loaded.recipe.objective.label(),
        "data": loaded.recipe.data.source,
        "parameters": sum(each.numel() for each in loaded.network.parameters()),
        "test_images": images,
        "test_loss": loss,
        "best_baseline": min(baselines.items(), key=lambda each: each[1]),
        "probe_accuracy": probes[-1].accuracy if probes else None,
        "best_probe_baseline": best,
        "command": " ".join(json.loads(run.environment.read_text())["command"]),
    }


def public(value: Any) -> Any:
    """Return JSON values with the last names of absolute paths."""
    if isinstance(value, dict):
        return {name: public(each) for name, each in value.items()}
    if isinstance(value, list):
        return [public(each) for each in value]
    return ABSOLUTE.sub(r"\1", value) if isinstance(value, str) else value


def write(path: Path, values: Any) -> None:
    path.write_text(f"{json.dumps(values, indent=2)}\n")


if __name__ == "__main__":
    main()

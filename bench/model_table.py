"""The table of models that come with the package, from the records in their folders."""

import json
from pathlib import Path

MODELS = Path(__file__).parents[1] / "isopix" / "shipped"


def shipped_models() -> str:
    """Return the table of docs/models.md."""
    loss, probe = "test loss (best baseline), nats per code", "probe (best baseline)"
    head = ["name", "objective", "data", "test images", loss, probe]
    lines = [head, ["---"] * len(head), *(row(path) for path in sorted(MODELS.glob("*/model.json")))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def row(path: Path) -> list[str]:
    model = json.loads(path.read_text())
    name, nats = model["best_baseline"]
    probe = "not measured"
    if model["best_probe_baseline"]:
        other, accuracy = model["best_probe_baseline"]
        probe = f"{model['probe_accuracy']:.1%} ({other} {accuracy:.1%})".replace("%", " %")
    return [
        f"`{path.parent.name}`",
        model["objective"],
        model["data"],
        f"{model['test_images']:,}",
        f"{model['test_loss']:.3f} ({name} {nats:.3f})",
        probe,
    ]

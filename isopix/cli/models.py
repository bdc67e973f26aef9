"""`isopix models`: the models that come with the package."""

from typing import Any

from isopix.api.model_list import ShippedModel, list_models
from isopix.cli.console import Json, say, show_json, show_table

COLUMNS = ["name", "objective", "data", "test loss", "probe"]


def models(*, json: Json = False) -> None:
    """List the models that come with isopix; commands accept their names in place of a run folder.

    Test losses are in nats per predicted code, probes are the test accuracy of a linear probe; in parentheses
    the best baseline of each: a neighboring pixel, raw pixels. --json has sizes, counts and commands.

    Example: isopix models
    """
    found = list_models()
    if json:
        show_json({"models": [_record(each) for each in found]})
        return
    show_table(
        "Models: test loss in nats per code and probe accuracy (best baseline)",
        COLUMNS,
        [_row(each) for each in found],
    )
    say(f"try: isopix sample {found[0].name}" if found else "none in this installation")


def _record(model: ShippedModel) -> dict[str, Any]:
    return {**vars(model), "folder": str(model.folder), "size": model.size}


def _row(model: ShippedModel) -> list[str]:
    probe, baseline = model.probe_accuracy, model.best_probe_baseline
    return [
        model.name,
        model.objective,
        model.data,
        f"{model.test_loss:.3f} ({model.best_baseline[1]:.3f})",
        "" if probe is None or baseline is None else f"{probe:.1%} ({baseline[1]:.1%})",
    ]

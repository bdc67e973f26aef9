"""`isopix models`: the models that come with the package."""

from pathlib import Path

from isopix.core.verb import verb
from isopix.runs.model_list import ShippedModel, ShippedModels


@verb(command="models")
def list_models() -> ShippedModels:
    """List the models that come with isopix; commands accept their names in place of a run folder.

    Test losses are in nats per predicted code, probes are the test accuracy of a linear probe; in parentheses
    the best baseline of each: a neighboring pixel, raw pixels. --json has sizes, counts and commands.

    Example: isopix models
    """
    from isopix.core.config import from_dict
    from isopix.runs.shipped import shipped_models
    from isopix.storage.atomic import read_json

    found = [
        {"name": name, "folder": folder, "size": _size(folder), **read_json(folder / "model.json")}
        for name, folder in shipped_models().items()
    ]
    return ShippedModels(models=tuple(from_dict(ShippedModel, each) for each in found))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

"""`isopix models`: the models that come with the package."""

from dataclasses import dataclass
from pathlib import Path

from isopix.core.text import Table
from isopix.core.verb import verb
from isopix.storage.result import Result


@dataclass(frozen=True, kw_only=True)
class ShippedModel:
    """A model that comes with the package, in `folder`, whose files have `size` bytes.

    `test_loss` is in nats per predicted code, `probe_accuracy` that of a linear probe on test images; the
    best baselines are learning-free on the same images.
    """

    name: str
    objective: str
    data: str
    parameters: int
    test_images: int
    test_loss: float
    best_baseline: tuple[str, float]
    probe_accuracy: float | None
    best_probe_baseline: tuple[str, float] | None
    command: str
    folder: Path
    size: int


class ShippedModels(Result):
    """The models that come with the package."""

    models: tuple[ShippedModel, ...]

    def tables(self) -> list[Table]:
        caption = "Models: test loss in nats per code and probe accuracy (best baseline)"
        columns = ["name", "objective", "data", "test loss", "probe"]
        return [Table(caption, columns, [_row(each) for each in self.models])]

    def notes(self) -> list[str]:
        return [f"try: isopix sample {self.models[0].name}" if self.models else "none in this installation"]


@verb(command="models")
def list_models() -> ShippedModels:
    """List the models that come with isopix; commands accept their names in place of a run folder.

    Test losses are in nats per predicted code, probes are the test accuracy of a linear probe, with the best
    baseline of each in parentheses.

    Example: isopix models
    """
    from isopix.core.config import from_dict
    from isopix.runs.load import shipped_models
    from isopix.storage.atomic import read_json

    found = [
        {"name": name, "folder": folder, "size": _size(folder), **read_json(folder / "model.json")}
        for name, folder in shipped_models().items()
    ]
    return ShippedModels(models=tuple(from_dict(ShippedModel, each) for each in found))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _row(model: ShippedModel) -> list[str]:
    probe, baseline = model.probe_accuracy, model.best_probe_baseline
    return [
        model.name,
        model.objective,
        model.data,
        f"{model.test_loss:.3f} ({model.best_baseline[1]:.3f})",
        "" if probe is None or baseline is None else f"{probe:.1%} ({baseline[1]:.1%})",
    ]

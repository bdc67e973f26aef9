"""The list of models that come with the package, as `isopix models` shows it."""

from dataclasses import dataclass
from pathlib import Path

from isopix.core.table import Table
from isopix.storage.result import Result


@dataclass(frozen=True, kw_only=True)
class ShippedModel:
    """A model that comes with the package, in `folder`, whose files have `size` bytes.

    `test_loss` is in nats per predicted code on `test_images` images of `data`, `best_baseline` the best
    learning-free one on the same images. `probe_accuracy` is the test accuracy of a linear probe of the layer
    that validation images select, `best_probe_baseline` that of the best baseline, such as raw pixels.
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
        """Return a row for each model."""
        caption = "Models: test loss in nats per code and probe accuracy (best baseline)"
        columns = ["name", "objective", "data", "test loss", "probe"]
        return [Table(caption, columns, [_row(each) for each in self.models])]

    def notes(self) -> list[str]:
        """Return a command to try."""
        return [f"try: isopix sample {self.models[0].name}" if self.models else "none in this installation"]


def _row(model: ShippedModel) -> list[str]:
    probe, baseline = model.probe_accuracy, model.best_probe_baseline
    return [
        model.name,
        model.objective,
        model.data,
        f"{model.test_loss:.3f} ({model.best_baseline[1]:.3f})",
        "" if probe is None or baseline is None else f"{probe:.1%} ({baseline[1]:.1%})",
    ]

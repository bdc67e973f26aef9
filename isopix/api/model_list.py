"""The models that come with the package, for Python: list_models."""

from dataclasses import dataclass
from pathlib import Path

from isopix.runs.shipped import shipped_models
from isopix.storage.atomic import read_json


@dataclass(frozen=True)
class ShippedModel:
    """A model that comes with the package, in `folder`.

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

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def list_models() -> tuple[ShippedModel, ...]:
    """Return the models that come with the package; `isopix.load` and every command take their names."""
    return tuple(_read(name, folder) for name, folder in shipped_models().items())


def _read(name: str, folder: Path) -> ShippedModel:
    facts = read_json(folder / "model.json")
    for field in ("best_baseline", "best_probe_baseline"):
        facts[field] = facts[field] and tuple(facts[field])
    return ShippedModel(name=name, folder=folder, **facts)

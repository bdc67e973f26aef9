"""ExportedModel: a network as a model of `transformers`: weights, JSON files and a model card."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from isopix.interop.name_tables import WeightMapping
from isopix.interop.weights import CONFIG
from isopix.storage import atomic
from isopix.storage.arrays import write_tensors


@dataclass(frozen=True)
class ExportedModel:
    """Tensors in the names and layouts of `transformers`, the JSON files beside them, and of the network's
    own tensors those that have no place there, with the reason of each.
    """

    tensors: Mapping[str, Tensor]
    files: Mapping[str, Mapping[str, Any]]
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_class(self) -> str:
        """The class of `transformers` that loads it."""
        return str(self.files[CONFIG]["architectures"][0])

    def write(self, folder: Path, *, card: str) -> None:
        """Write the folder atomically; `card` becomes its `README.md`.

        Raises ValueError if the folder is not empty; RuntimeError if the disk is full.
        """
        folder = folder.resolve()
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise ValueError(f"{folder} exists already; the folder must be new or empty")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic.temporary_folder(folder, f"model {folder}") as temporary:
            write_tensors(temporary / "model.safetensors", dict(self.tensors), {"format": "pt"})
            for name, values in self.files.items():
                atomic.write_bytes(temporary / name, atomic.json_bytes(values))
            atomic.write_bytes(temporary / "README.md", card.encode())
            atomic.fsync_folder(temporary)
            temporary.rename(folder)
            atomic.fsync_folder(folder.parent)


def require_names(own: Collection[str], mappings: Iterable[WeightMapping], model: str) -> None:
    """Raise ValueError for a tensor that has no place in a model of `transformers`, or is missing there."""
    for name in sorted(set(own) ^ {name for mapping in mappings for name in mapping.target}):
        problem = "has no place in" if name in own else "is missing, but required by"
        raise ValueError(f"tensor '{name}' {problem} {model} of transformers")

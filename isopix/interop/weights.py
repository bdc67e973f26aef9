"""The files of other people's models: their config, and their weights, of which no code is executed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zipfile import is_zipfile

import torch
from pydantic import BaseModel, ValidationError
from safetensors import safe_open
from torch import Tensor

from isopix.core.text import naming
from isopix.storage import atomic
from isopix.storage.arrays import write_tensors
from isopix.storage.atomic import read_json
from isopix.storage.run_folder import require_new

CONFIG, PROCESSOR = "config.json", "preprocessor_config.json"
WRITERS = {PROCESSOR: "the model's image processor"}
INDEX = ".index.json"
SINGLE = ("model.safetensors", "pytorch_model.bin")  # the safer format first

C = TypeVar("C", bound=BaseModel)


class WeightFiles(NamedTuple):
    """Tensors in one file or several: their shapes, and a function that reads one."""

    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Tensor]


@dataclass(frozen=True)
class ExportedModel:
    """Tensors in the names of `transformers`, JSON files, and the tensors left out with their reasons."""

    tensors: Mapping[str, Tensor]
    files: Mapping[str, Mapping[str, Any]]
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_class(self) -> str:
        return str(self.files[CONFIG]["architectures"][0])

    def write(self, folder: Path, *, card: str) -> None:
        """Write the folder atomically; `card` becomes its `README.md`."""
        folder = folder.resolve()
        require_new(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic.temporary_folder(folder, f"model {folder}") as temporary:
            write_tensors(temporary / SINGLE[0], dict(self.tensors), {"format": "pt"})
            for name, values in self.files.items():
                atomic.write_bytes(temporary / name, atomic.json_bytes(values))
            atomic.write_bytes(temporary / "README.md", card.encode())
            atomic.fsync_folder(temporary)
            temporary.rename(folder)
            atomic.fsync_folder(folder.parent)


def read_config(folder: Path, name: str, kind: type[C]) -> C:
    """Return a JSON file of a model folder. Raises ValueError that names a setting which is not supported."""
    if not (folder / name).is_file():
        raise ValueError(f"{name} is missing; save_pretrained of {WRITERS.get(name, 'a model')} writes it")
    try:
        return kind.model_validate(read_json(folder / name))
    except ValidationError as error:
        first = error.errors()[0]
        setting = ".".join(map(str, first["loc"])) or name
        raise ValueError(f"{setting} is {first['input']!r:.100}; {first['msg']}") from None


def open_weights(folder: Path) -> WeightFiles:
    """Open `model.safetensors` or `pytorch_model.bin`, in one file or in the shards that an index lists."""
    for name in SINGLE:
        if (folder / name).is_file():
            return _open_file(folder / name)
        if (folder / f"{name}{INDEX}").is_file():
            return _open_sharded(folder, f"{name}{INDEX}")
    raise ValueError(f"there is no {' or '.join(SINGLE)}, and no {INDEX} of either")


def _open_file(path: Path) -> WeightFiles:
    if path.suffix == ".bin":
        return _open_pickle(path)
    with naming(path.name), safe_open(path, framework="pt") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in list(file.keys())}

    def read(name: str) -> Tensor:
        with safe_open(path, framework="pt") as file:  # reopened, so that nothing read stays in memory
            tensor: Tensor = file.get_tensor(name)
            return tensor

    return WeightFiles(shapes, read)


def _open_pickle(path: Path) -> WeightFiles:
    try:
        values = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zipfile(path))
    except Exception as error:  # a damaged or hostile pickle can raise anything
        raise ValueError(
            f"{path.name} is damaged or holds more than tensors ({type(error).__name__}); no code was run"
        ) from None
    if not isinstance(values, dict) or not all(isinstance(each, Tensor) for each in values.values()):
        raise ValueError(f"{path.name} holds something else than tensors by name")
    shapes = {str(name): tuple(each.shape) for name, each in values.items()}
    return WeightFiles(shapes, values.__getitem__)


class _Index(BaseModel):
    weight_map: dict[str, str]


def _open_sharded(folder: Path, index: str) -> WeightFiles:
    """Open all shards, which are files beside the index, never paths."""
    holders = dict[str, WeightFiles]()
    for file in sorted(set(read_config(folder, index, _Index).weight_map.values())):
        if Path(file).name != file or not (folder / file).is_file():
            raise ValueError(f"{index} lists {file!r:.100}, which is not a file beside it")
        shard = _open_file(folder / file)
        holders |= dict.fromkeys(shard.shapes, shard)
    shapes = {name: shard.shapes[name] for name, shard in holders.items()}
    return WeightFiles(shapes, lambda name: holders[name].read(name))

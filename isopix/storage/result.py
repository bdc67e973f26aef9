"""Result: what a verb returns; its fields are its record, its tables are what is shown of it.

Measurement: the images, the labels and the choices that its numbers depend on.
"""

import dataclasses
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, dataclass_transform

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from isopix.core import ranks
from isopix.core.choices import SplitName
from isopix.core.text import Table, count_of, naming
from isopix.core.verb import current_call
from isopix.storage.atomic import read_json, replace_file
from isopix.storage.provenance import call_record, settings_hash

T = TypeVar("T")
R = TypeVar("R", bound="Result")


class _Call(BaseModel):
    verb: str
    arguments: dict[str, Any]
    command: list[str]
    folder: str
    written: str


def _checked_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    _Call.model_validate(call)
    return call


CheckedCall = Annotated[Mapping[str, Any], AfterValidator(_checked_call)]
if TYPE_CHECKING:
    Unsaved = Annotated[T, Field(exclude=True)]
    """The type of a field that is not in the record, and None in a result that was read from a file:
    `images: Unsaved[Any] = unsaved()`.
    """
else:
    Unsaved = Annotated[T | None, Field(exclude=True)]


def unsaved() -> Any:
    """Return the default, None, of a field that is not in the record."""
    return field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a loss or an accuracy was measured on. It is saved beside the number, as `measurement`.

    `images` of the `available` images of `split` (None: of those given) were used, without `left_out` copies
    of images that the model had seen. `images_hash` is of content and labels, `fitted_hash` of the
    `fitted_images` of a classifier of frozen features. `labels_seen` None is unknown. `selection` says what
    was chosen by which images; `warnings` what classes train lacks, and what is not known.
    """

    data: str
    split: SplitName | None
    images: int
    available: int
    images_hash: str
    left_out: int = 0
    fitted_images: int | None = None
    fitted_hash: str = ""
    classes: Mapping[str, int] = field(default_factory=dict)
    labels_seen: int | None = 0
    selection: str = ""
    seeds: Mapping[str, int | None] = field(default_factory=dict)
    baselines: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def count(self) -> str:
        """The images: `2,000 of 10,000 test images of cifar10`, `60 images of photos (training split)`."""
        used = f"{self.images:,} of " * (self.images != self.available) + f"{self.available:,}"
        noun = "image" if self.available == 1 else "images"
        if self.split is None:
            return f"{used} given {noun}"
        if self.split == "train":
            return f"{used} {noun} of {self.data} (training split)"
        return f"{used} {self.split} {noun} of {self.data}"

    @property
    def line(self) -> str:
        """The record in one line: the images, the classes, what was selected, and the labels seen."""
        parts = [self.count]
        if self.left_out:
            parts.append(f"copies of training or validation images that are left out: {self.left_out:,}")
        if self.split is not None and self.split in self.classes:
            parts.append(count_of(self.classes[self.split], "class"))
        if self.fitted_images is not None:
            parts.append(f"fitted to {self.fitted_images:,} training images")
        if self.selection:
            parts.append(self.selection)
        if self.labels_seen:
            parts.append(f"the network was trained on the labels of {self.labels_seen:,} images")
        return "; ".join(parts)


@dataclass(frozen=True)
class EnsembleAccuracy:
    """Alternatives to the majority vote over masks: single masks in the mean, and mean probabilities."""

    single_mask: float
    mean_probability: float


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, unsaved))
@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The base of results. `path` is where the result was written, if it was: its record, a picture or page
    with the record next to it, or a folder with the record in it. Modules of subclasses import no torch.
    """

    call: CheckedCall = field(default_factory=lambda: call_record(current_call()))
    measurement: Measurement | None = None
    warnings: tuple[str, ...] = ()
    path: Unsaved[Path | None] = None

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, ser_json_inf_nan="strings"
    )

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True, repr=False)(cls)

    def tables(self) -> Sequence[Table]:
        """Return what the terminal, the notebook, the report and the model card show."""
        return ()

    def figures(self) -> Iterator[tuple[str, Any]]:
        """Yield the caption and the figure of each plot of the report."""
        yield from ()

    @property
    def document(self) -> str:
        """What the terminal shows instead of tables and notes, as it is; empty for those."""
        return ""

    @property
    def title(self) -> str:
        """The title of its section in a report."""
        return str(self.call["verb"]).replace("_", " ").capitalize()

    @property
    def caption(self) -> str:
        """What its picture shows."""
        return ""

    @property
    def failure(self) -> str:
        """Why the command fails, with exit code 1, although there is a result; empty if it does not."""
        return ""

    def __repr__(self) -> str:
        return "\n\n".join([*(each.text() for each in self.tables()), *self.notes()])

    def _repr_html_(self) -> str:
        shown = (f'<img src="data:image/png;base64,{b64encode(each).decode()}">' for each in self._shown())
        return "".join([*shown, *(each.html() for each in self.tables())])

    def _shown(self) -> list[bytes]:
        figures = [_png(figure) for _, figure in self.figures()]
        return figures or [each.read_bytes() for each in self.pictures]

    @property
    def pictures(self) -> list[Path]:
        """The file of the picture beside the record, or those in its folder."""
        if self.path is None:
            return []
        if self.path.with_suffix(".png").is_file():
            return [self.path.with_suffix(".png")]
        return sorted((self.path.parent if self.path.stem == self.call["verb"] else self.path).glob("*.png"))

    def notes(self) -> list[str]:
        """Return a line for each warning, and one that says where the result was written."""
        warnings = [f"note: {each}" for each in self.warnings]
        return warnings + ([] if self.path is None else [f"wrote {self.path}"])

    def json(self) -> bytes:
        """Return the record; NaN and infinity are strings, and numbers of NumPy and PyTorch plain ones."""
        options: Any = {"fallback": lambda number: number.item(), "warnings": False}
        return TypeAdapter(type(self)).dump_json(self, indent=2, **options) + b"\n"

    def record(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return dict(json.loads(self.json()))

    def saved(self: R, path: Path) -> R:
        """Write the record to `path`, into a folder, or beside a picture or page; return the result so."""
        if ranks.rank() == 0:
            file = path / f"{self.call['verb']}.json" if path.is_dir() else path.with_suffix(".json")
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, self.json())
        return dataclasses.replace(self, path=path)

    def named(self, folder: Path, step: int, data: str) -> Path:
        """Return the path of the record in a folder, which the same call on the same images replaces."""
        others = ("run", "out", "device")
        given = {key: each for key, each in self.call["arguments"].items() if key not in others}
        measured = self.measurement and (self.measurement.images_hash, self.measurement.fitted_hash)
        suffix = settings_hash({**given, "measured": measured})
        return folder / f"{self.call['verb']}-{step:08d}-{data}-{suffix}.json"

    @classmethod
    def read(cls: type[R], path: Path) -> R:
        """Return the result that was saved at a path. Raises ValueError for another file."""
        file = path.with_suffix(".json")
        if path.is_dir():
            file = next((each for each in path.glob("*.json") if "call" in read_json(each)), path)
        with naming(str(file)):
            try:
                found = TypeAdapter(cls).validate_python(read_json(file))
            except ValidationError as error:
                first = error.errors()[0]
                wrong = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
                raise ValueError(f"it is no {cls.__name__} of this version: {wrong}") from None
            _ = found.title, found.caption, [each.html() for each in found.tables()]  # it can be shown
            return dataclasses.replace(found, path=path)


def _png(figure: Any) -> bytes:
    content = BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def read_result(kinds: Sequence[type[R]], path: Path) -> R:
    """Return the result in a file, of the kind that has most of its fields; as `Result.read` otherwise."""
    names = read_json(path).keys()
    kind = max(kinds, key=lambda each: len(names & {item.name for item in dataclasses.fields(each)}))
    return kind.read(path)

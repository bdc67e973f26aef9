"""The results of `isopix import` and `isopix export`."""

from collections.abc import Mapping
from dataclasses import field

from isopix.core.choices import ExportFormat
from isopix.core.text import Table, command_line
from isopix.storage.result import Result


class ImportResult(Result):
    """An imported model: the loaded tensors, and how many of each rule were `skipped`."""

    origin: str
    step: int
    depth: int
    width: int
    image_size: tuple[int, int]  # rows and columns, in pixels
    parameters: int
    tensors: int
    skipped: Mapping[str, int]
    predicts_codes: bool
    classes: tuple[str, ...] = ()

    def tables(self) -> list[Table]:
        rows = [("loaded", self.tensors)]
        rows += [(f"skipped, {rule}", count) for rule, count in self.skipped.items()]
        rows_cols = "×".join(map(str, self.image_size))
        size = f"depth {self.depth}, width {self.width}, {self.parameters:,} parameters, {rows_cols} pixels"
        step = f", step {self.step:,}" if self.step else ""  # 0 where it is not known
        return [Table(f"{self.origin}{step}: {size}", ["tensors", "number"], rows)]

    def notes(self) -> list[str]:
        verbs = {"evaluate": self.predicts_codes or bool(self.classes), "probe": True}
        commands = [f"{command_line(name, self.path)} --data …" for name, fits in verbs.items() if fits]
        return [*super().notes(), f"next: {' ; '.join(commands)}"]


class ExportResult(Result):
    """An exported model: how many tensors of each rule were `skipped`, and its `url` on the Hub.

    A program gives the logits of `classes`, or the features of a `layer`; `max_error` is its difference from
    the model on random images of `image_size`, rows and columns.
    """

    format: ExportFormat
    step: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    load_with: str
    url: str = ""
    layer: int | None = None
    classes: tuple[str, ...] = ()
    image_size: tuple[int, int] | None = None
    max_error: float | None = None

    def tables(self) -> list[Table]:
        if self.image_size is not None:
            rows, cols = self.image_size
            outputs = f"features of layer {self.layer}" if self.layer is not None else "class logits"
            values = [(f"uint8 [B 3 {rows} {cols}]", outputs, f"{self.max_error:.2g}")]
            return [Table("Program", ["images", "outputs", "largest difference from the model"], values)]
        table = Table("Tensors left out", ["tensors", "number"], list(self.skipped.items()))
        return [table] if self.skipped else []

    def notes(self) -> list[str]:
        published = [f"published: {self.url}"] if self.url else []
        return [*super().notes(), *published, f"step {self.step:,}; load with: {self.load_with}"]

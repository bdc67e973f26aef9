"""The results of `isopix convert` and `isopix publish`."""

from collections.abc import Mapping

from isopix.core.text import Table, command_line
from isopix.storage.result import Result


class ConversionResult(Result):
    """A converted model: the loaded tensors, and how many of each rule were `skipped` or `rounded`."""

    origin: str
    step: int
    depth: int
    width: int
    image_size: tuple[int, int]  # rows and columns, in pixels
    parameters: int
    tensors: int
    skipped: Mapping[str, int]
    rounded: int = 0
    predicts_codes: bool
    classes: tuple[str, ...] = ()
    model_class: str = ""

    def tables(self) -> list[Table]:
        rows = [
            ("loaded", self.tensors),
            *((f"skipped, {rule}", count) for rule, count in self.skipped.items()),
        ]
        if self.rounded:
            rows.append(("rounded from float64 to float32", self.rounded))
        rows_cols = "×".join(map(str, self.image_size))
        size = f"depth {self.depth}, width {self.width}, {self.parameters:,} parameters, {rows_cols} pixels"
        step = f", step {self.step:,}" if self.step else ""  # 0 where it is not known
        return [Table(f"{self.origin}{step}: {size}", ["tensors", "number"], rows)]

    def notes(self) -> list[str]:
        lines = super().notes()
        if self.model_class:
            return [*lines, f"load with: transformers.{self.model_class}.from_pretrained('{self.path}')"]
        verbs = {"verify": self.predicts_codes, "evaluate": bool(self.classes), "probe": True}
        commands = [f"{command_line(name, self.path)} --data …" for name, fits in verbs.items() if fits]
        return [*lines, f"next: {' ; '.join(commands)}"]


class PublicationResult(Result):
    """A published model: its URL, and the step of its weights."""

    url: str
    step: int

    def notes(self) -> list[str]:
        return [f"published step {self.step}: {self.url}"]

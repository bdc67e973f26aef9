"""The result of `isopix palette`: colors, and their quantization error on a dataset."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from isopix.core.choices import SplitName
from isopix.core.text import Table, count_of
from isopix.storage.result import Result


@dataclass(frozen=True)
class SplitError:
    """The quantization error on the images of a split: `rmse` in levels of 0..255; `psnr_db`, 20 log10(255 /
    rmse), is None if it is zero.
    """

    pixels: int
    rmse: float
    psnr_db: float | None
    unused_colors: int
    rare_colors: int

    @property
    def row(self) -> tuple[str, ...]:
        psnr = "exact" if self.psnr_db is None else f"{self.psnr_db:.2f} dB"
        return f"{self.pixels:,}", f"{self.rmse:.3f}", psnr, str(self.unused_colors), str(self.rare_colors)


class PaletteResult(Result):
    """A palette in levels of 0..255, and errors on splits of `data`."""

    num_colors: int
    source: str
    fingerprint: str
    rgb: tuple[tuple[float, ...], ...]
    data: str | None = None
    splits: Mapping[SplitName, SplitError]

    def __rich__(self) -> Text:
        levels = (map(round, color) for color in sorted(self.rgb, key=sum))
        return Text.assemble(*(("  ", "on rgb({},{},{})".format(*each)) for each in levels))

    def tables(self) -> list[Table]:
        caption = f"{count_of(self.num_colors, 'color')}: {self.source} (fingerprint {self.fingerprint[:12]})"
        columns = [self.data or "", "pixels", "RMSE (0-255)", "PSNR", "unused colors", "rare colors"]
        return [Table(caption, columns, [(name, *error.row) for name, error in self.splits.items()])]

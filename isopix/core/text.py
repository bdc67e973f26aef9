"""Values as text: numbers and durations, tables, safe text of foreign origin, command lines, suggestions."""

import csv
import difflib
import io
import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.box import ASCII2, SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from isopix.core.signals import errors_as_stops

# Control characters, marks and overrides of the writing direction, line separators, and surrogates, as which
# Python reads the bytes of a file name that are no UTF-8.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)

MAX_REASON = 1000  # characters
HUGE = 1e5  # nats
SIMILARITY, OF_PATHS = 0.6, 0.75  # of a suggestion, by difflib's ratio

FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # how they begin in spreadsheets

NUMBER = re.compile(r"[<$±+−-]? ?\d|–$")  # how numbers begin, and the sign of one that is missing
WIDE = 10_000  # characters: no row is wrapped

# Names of settings in other libraries, for suggestions.
SETTING_SYNONYMS = {
    **dict.fromkeys(("layers", "num_layers"), "depth"),
    **dict.fromkeys(("dim", "embed_dim", "hidden_size"), "width"),
    **dict.fromkeys(("image_size", "img_size", "resolution"), "rows"),
}


def expand_home(value: Any) -> Any:
    """Return a path that begins with `~/` or `~USER/` in full, as shells do, and any other value as it is."""
    if isinstance(value, str | Path) and str(value).startswith("~") and "/" in str(value):
        return type(value)(os.path.expanduser(str(value)))  # noqa: PTH111  Path raises for an unknown user
    return value


def printable(text: str) -> str:
    r"""Return one line that does nothing to a terminal: unsafe characters are escaped, as in `\x1b`."""
    return UNSAFE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """Return text of several lines, each as in `printable`."""
    return "\n".join(map(printable, text.split("\n")))


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV: None is empty, text is printable, and what would be a formula begins with `'`."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(map(_csv_value, row) for row in rows)
    return text.getvalue()


def _csv_value(value: object) -> str:
    shown = "" if value is None else printable(str(value))
    return f"'{shown}" if isinstance(value, str) and shown.startswith(FORMULA) else shown


def require_utf8(name: str, text: str) -> None:
    """Raise ValueError for a path or a name with bytes that are not UTF-8, which no record can hold."""
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise ValueError(f"{name} is not UTF-8: {printable(text)}; rename it")


def normal_form(name: str) -> str:
    """Return a name in NFC, the form in which names compare that systems write differently (é as e + ´)."""
    return unicodedata.normalize("NFC", name)


def count_of(count: int, noun: str) -> str:
    """Return a number with its noun: `1 step`, `1,000 steps`, `2 classes`."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{plural * (count != 1)}"


def format_bytes(count: int | float) -> str:
    """Format a number of bytes with a binary prefix."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def format_loss(nats: float) -> str:
    """Format 2.0794, and the huge loss of a diverging training as 2.345e+30."""
    return f"{nats:.4f}" if abs(nats) < HUGE else f"{nats:.4g}"


def format_duration(seconds: int | float) -> str:
    """Format 65 seconds as 1 min 5 s, 4000 as 1 h 7 min, and a million as 11.6 days."""
    if seconds < 1:
        return "under 1 s"
    if seconds < 3600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if minutes else f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{seconds / 86400:,.1f} days" if seconds >= 2 * 86400 else f"{hours} h {minutes} min"


def format_rate(rate: float) -> str:
    """Format a number of items a second: integers from 100."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def percent_with_interval(fraction: float, low: float, high: float) -> str:
    """Format a fraction with its interval: `41.2% (39.8 to 42.5)`."""
    return f"{fraction:.1%} ({100 * low:.1f} to {100 * high:.1f})"


def mean_and_std(values: Sequence[float], form: str = ".1%") -> str:
    """Format the mean of values with their standard deviation, n − 1: `62.2% ± 1.3%`; of one, `62.2%`."""
    spread = f" ± {stdev(values):{form}}" if len(values) > 1 else ""
    return f"{mean(values):{form}}{spread}"


def signed_points(difference: float) -> str:
    """Format a difference of fractions in percentage points: `+22.3` or `−1.5`."""
    return f"{100 * difference:+.1f}".replace("-", "\N{MINUS SIGN}")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # the byte code - 0xDC00 (PEP 383)
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def error_line(error: Exception) -> str:
    """Return in one line, without memory addresses, why something failed."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return f"no {error}"
    if "allow_pickle" in str(error):  # NumPy takes what is no array for a pickle, and advises to load it
        return "it has no arrays, or arrays of Python objects"
    return " ".join(str(error).split())[:MAX_REASON] or type(error).__name__


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Turn whatever a library raises about a file into a ValueError of one line that begins with its name."""
    try:
        with errors_as_stops():  # else a file would seem damaged because a stop signal came while it was read
            yield
    except Exception as error:  # damaged files raise a dozen types
        raise ValueError(f"{file} cannot be read: {error_line(error)}") from error


def command_line(*words: object) -> str:
    """Return `isopix` and these words, quoted for a shell: isopix probe 'my run'."""
    given = [f"./{each}" if isinstance(each, Path) and str(each)[0] == "-" else str(each) for each in words]
    return shlex.join(["isopix", *given])


def did_you_mean(
    given: str, names: Iterable[str], *, similarity: float = SIMILARITY, shown: Callable[[str], str] = str
) -> str:
    """Return "did you mean 'NAME'? " if one of the names is similar to the given one, else nothing."""
    found = difflib.get_close_matches(given, list(names), n=1, cutoff=similarity)
    return f"did you mean '{shown(found[0])}'? " if found else ""


def similar_paths(path: Path, *, folders: bool = False) -> list[str]:
    """Return the path of the most similar name beside one that does not exist, if any; no hidden ones."""
    try:
        with os.scandir(path.parent) as entries:
            names = [each.name for each in entries if each.is_dir() or not folders]
    except OSError:
        return []
    shown = sorted(name for name in names if not name.startswith("."))
    found = difflib.get_close_matches(path.name, shown, n=1, cutoff=OF_PATHS)
    return [str(path.parent / name) for name in found]


@dataclass(frozen=True)
class Table:
    """A table with a caption. Columns after the first are aligned right if all their values are numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    def text(self, width: int | None = None, *, ascii_only: bool = False) -> str:
        """Return lines of at most `width` characters, long values wrapped; without rows, the caption."""
        table = RichTable(box=ASCII2 if ascii_only else SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for index, column in enumerate(self.columns):
            table.add_column(Text(printable(column)), justify="right" if self.is_numeric(index) else "left")
        for row in self._cells:
            table.add_row(*map(Text, row))
        console = Console(width=width or WIDE, color_system=None, legacy_windows=False)
        text = "".join(each.text for each in console.render(table))
        lines = [line.rstrip() for line in text.splitlines() if self.rows]
        return "\n".join([printable(self.caption), *lines])

    def html(self) -> str:
        head = "".join(f"<th>{escape(printable(each))}</th>" for each in self.columns)
        rows = ("".join(f"<td>{escape(each)}</td>" for each in row) for row in self._cells)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = f"<caption>{escape(printable(self.caption))}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def markdown(self) -> str:
        lines = [map(printable, self.columns), ["---"] * len(self.columns), *self._cells]
        cells = ((escape(each, quote=False).replace("|", "\\|") for each in line) for line in lines)
        rows = (f"| {' | '.join(line)} |" for line in cells)
        return "\n".join([f"{escape(printable(self.caption), quote=False)}\n", *rows])

    @property
    def _cells(self) -> list[list[str]]:
        return [[printable(str(value)) for value in row] for row in self.rows]

    def is_numeric(self, index: int) -> bool:
        """Whether all values of a column are numbers; never the first column."""
        filled = [row[index] for row in self._cells if row[index]]
        return index > 0 and bool(filled) and all(map(NUMBER.match, filled))

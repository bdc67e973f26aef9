"""Tables as lines of text: as they are, with words wrapped, or as a block of lines for each row."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import cell_len

GAP = "  "
INDENT = 4  # of a second line in a block
NUMBER = re.compile(r"[<$±+−-]? ?\d|–$")  # how numbers begin, and the sign of one that is missing


class TableText(NamedTuple):
    """The lines of a table, without the rule between them; blocks have no header."""

    header: list[str]
    body: list[str]


class _Column(NamedTuple):
    title: str
    cells: list[str]
    numeric: bool

    @property
    def widest(self) -> int:
        return max(map(cell_len, [self.title, *self.cells]))

    @property
    def narrowest(self) -> int:
        """The width at which no word is broken, and no number wrapped."""
        words = _words(self.title) + (
            self.cells if self.numeric else [x for c in self.cells for x in _words(c)]
        )
        return max(map(cell_len, words), default=0)

    def heights(self, width: int) -> list[int]:
        return [len(wrap_words(each, width)) for each in (self.title, *self.cells)]


def format_table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> TableText:
    """Return a table in lines of up to `width` characters, where no word is longer; None: of any width.

    The first column and text align left, numbers right. Numbers are not wrapped, and text only between words.
    If the table is still too wide, each row is a block of lines, one for each value.
    """
    texts = [_Column(title, [row[i] for row in rows], numeric=False) for i, title in enumerate(columns)]
    found = [each._replace(numeric=i > 0 and _is_numeric(each.cells)) for i, each in enumerate(texts)]
    widths = [each.widest for each in found] if width is None else _fit(found, width)
    if widths is None:
        return TableText([], [line for row in rows for line in _block(columns, row, width or 0)])
    header = [_balanced_lines(each.title, size) for each, size in zip(found, widths, strict=True)]
    height = max(map(len, header), default=0)
    bottom = [[""] * (height - len(lines)) + lines for lines in header]
    body = [
        line
        for i in range(len(rows))
        for line in _join(
            [wrap_words(x.cells[i], w) for x, w in zip(found, widths, strict=True)], found, widths
        )
    ]
    return TableText(list(_join(bottom, found, widths)), body)


def wrap_words(text: str, width: int) -> list[str]:
    """Return lines of up to `width` characters; a longer word has a line of its own."""
    if cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    for word in _words(text):
        if lines and cell_len(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _words(text: str) -> list[str]:
    """Return the words; the indent of a text is a part of its first word."""
    return re.findall(r"^\s*\S+|\S+", text)


def _is_numeric(cells: Sequence[str]) -> bool:
    filled = [each for each in cells if each]
    return bool(filled) and all(map(NUMBER.match, filled))


def _fit(columns: Sequence[_Column], width: int) -> list[int] | None:
    """Return widths that add up to `width` with the gaps, by narrowing the widest columns; None if there are
    none.
    """
    widths, lowest = [each.widest for each in columns], [each.narrowest for each in columns]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    if excess <= 0:
        return widths
    cells = [max(map(cell_len, each.cells), default=0) for each in columns]
    for _ in range(excess):
        wrappable = [i for i in range(len(widths)) if widths[i] > lowest[i]]
        if not wrappable:
            return None
        # Titles are wrapped before the cells of any column.
        widths[max(wrappable, key=lambda i: (widths[i] > cells[i], widths[i]))] -= 1
    return [_balanced(*each) for each in zip(columns, widths, lowest, strict=True)]


def _balanced(column: _Column, width: int, lowest: int) -> int:
    """Return the smallest width that needs no more lines than this one: lines of about the same length."""
    heights = column.heights(width)
    return next(each for each in range(lowest, width + 1) if column.heights(each) == heights)


def _balanced_lines(text: str, width: int) -> list[str]:
    """Return as few lines as `wrap_words`, of about the same length."""
    count = len(wrap_words(text, width))
    narrower = (wrap_words(text, each) for each in range(1, width + 1))
    return next((lines for lines in narrower if len(lines) <= count), [text])


def _join(cells: Sequence[list[str]], columns: Sequence[_Column], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of one row of cells."""
    for texts in zip_longest(*cells, fillvalue=""):
        padded = []
        for text, column, width in zip(texts, columns, widths, strict=True):
            space = " " * (width - cell_len(text))
            padded.append(space + text if column.numeric else text + space)
        yield GAP.join(padded).rstrip()


def _block(columns: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    """Yield the values of one row, those after the first indented."""
    for i, (title, text) in enumerate(zip(columns, row, strict=True)):
        if text or i == 0:
            value = f"{title}: {text.strip()}" if title else text.strip()
            first, *rest = wrap_words(value, width - INDENT) or [""]
            yield f"{GAP * (i > 0)}{first}"
            yield from (f"{' ' * INDENT}{line}" for line in rest)

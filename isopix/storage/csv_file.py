"""CSV files, written atomically."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from isopix.core.text import printable
from isopix.storage.atomic import replace_file


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Replace the file: a line of column names, and one for each row; None is empty, and unsafe
    characters are escaped."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(["" if value is None else printable(str(value)) for value in row] for row in rows)
    replace_file(path, text.getvalue().encode())

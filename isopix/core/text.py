"""Values as text: text of foreign origin, such as file names, is made safe to display."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Control characters, marks and overrides of the writing direction, line separators, and surrogates, as which
# Python reads the bytes of a file name that are no UTF-8.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)

MAX_REASON = 1000  # characters


def printable(text: str) -> str:
    r"""Return one line of text that can be encoded and does nothing to a terminal.

    Unsafe characters are escaped as Python writes them: `\x1b`, `\xe9` for a byte that is no UTF-8, `\u202e`.
    """
    return UNSAFE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """Return text of several lines, each as in `printable`."""
    return "\n".join(map(printable, text.split("\n")))


def short_repr(value: object) -> str:
    """Return a value as Python writes it, with the type and the shape of tensors instead of their content."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')} [{' '.join(map(str, shape))}]"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return short_repr_of(value, value._fields)
    return repr(value)


def short_repr_of(value: object, names: Iterable[str]) -> str:
    """Return the class of a value with its attributes of these names, as `short_repr` writes them."""
    attributes = ", ".join(f"{name}={short_repr(getattr(value, name))}" for name in names)
    return f"{type(value).__name__}({attributes})"


def count_of(count: int, noun: str) -> str:
    """Return a number with its noun: `1 step`, `1000 steps`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_bytes(count: int | float) -> str:
    """Format a number of bytes with a binary prefix."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # the byte code - 0xDC00 (PEP 383)
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def error_line(error: Exception) -> str:
    """Return in one line, without memory addresses, why something failed."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())[:MAX_REASON] or type(error).__name__


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Turn whatever a library raises about a file into a ValueError of one line that begins with its name."""
    try:
        yield
    except Exception as error:  # damaged files raise a dozen types
        raise ValueError(f"{file} cannot be read: {error_line(error)}") from error

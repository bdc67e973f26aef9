"""Check: what was looked at, what was found, and what to do about it."""

from typing import Literal, NamedTuple


class Check(NamedTuple):
    """`action` says what to do about a warning or a failure."""

    name: str
    status: Literal["ok", "warning", "failed"]
    found: str
    action: str = ""

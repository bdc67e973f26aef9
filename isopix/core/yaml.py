"""YAML 1.2, core schema without octal and hexadecimal: `yes`, 010, 0x10, 1_000, 10:00 are strings."""

import re
from collections.abc import Iterable
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.resolver import VersionedResolver

# tag: pattern of such a scalar, and the characters that it may begin with.
SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    "int": (r"[-+]?(0|[1-9][0-9]*)", [*"-+0123456789"]),
    "float": (
        r"[-+]?((\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(inf|Inf|INF))"
        r"|\.(nan|NaN|NAN)",
        [*"-+.0123456789"],
    ),
}

MAX_DEPTH = 50  # levels of lists and tables

RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _tag, (_pattern, _characters) in SCALARS.items():
    for _character in _characters:
        _resolver = (f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"))
        RESOLVERS.setdefault(_character, []).append(_resolver)


class _Resolver(VersionedResolver):
    """The scalars above, whatever version of YAML a document declares."""

    @property
    def versioned_resolver(self) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
        return RESOLVERS

    @property
    def processing_version(self) -> tuple[int, int]:
        return 1, 2


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML document; nothing in it is executed.

    Raises ValueError, with a one-line message, for invalid YAML, for duplicate keys, for deep nesting and
    for aliases, which can stand for far more values than the document has.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver = _Resolver
    try:
        _check_events(yaml.parse(text))
        return yaml.load(text)
    except (YAMLError, ValueError, KeyError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def _check_events(events: Iterable[object]) -> None:
    """Raise ValueError for aliases and for more than `MAX_DEPTH` levels."""
    depth = 0
    for event in events:
        if isinstance(event, AliasEvent):
            raise ValueError("it has aliases (*name); write their values instead")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")

"""YAML with the scalars of its version 1.2: `yes` is a word, 010 no octal number, 10:00 no sum of seconds."""

import re
from typing import Any

import yaml

# tag: what such a scalar looks like, and the letters that it may begin with.
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


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012  as yaml declares it


for _tag, (_pattern, _letters) in SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _letters)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text; nothing in it is executed. Raises ValueError whose message is one line."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(" ".join(str(error).split())) from None

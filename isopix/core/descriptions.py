"""What each setting means: the docstring below its field in the settings class."""

import ast
import dataclasses
import inspect
import re
import textwrap
from functools import cache

from isopix.core.registry import Part


@cache
def descriptions(cls: type) -> dict[str, str]:
    """Return the description of each field that has one, of a class and its bases, by name of the field.

    A class without source code, such as one typed at a prompt, has none.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except (OSError, TypeError):
            continue
        found |= _of_source(source)
    return found


def _of_source(source: str) -> dict[str, str]:
    """The string that follows each annotated field of the class that a source starts with."""
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in zip(definition.body, definition.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def meanings(settings: object) -> dict[str, str]:
    """Return the description of every setting by its path, empty for one without.

    That of a `kind` is the first sentence of the part's docstring.
    """
    assert dataclasses.is_dataclass(settings), settings
    cls: type = type(settings)
    found: dict[str, str] = (
        {"kind": _first_sentence(inspect.getdoc(cls) or "")} if isinstance(settings, Part) else {}
    )
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        if dataclasses.is_dataclass(value):
            found |= {f"{item.name}.{path}": text for path, text in meanings(value).items()}
        else:
            found[item.name] = " ".join(descriptions(cls).get(item.name, "").split())
    return found


def _first_sentence(text: str) -> str:
    """The first sentence of the first paragraph; a period within parentheses ends none."""
    words = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    ends = (end.start() for end in re.finditer(r"[.](?= |$)", words))
    whole = (words[:end] for end in ends if words[:end].count("(") == words[:end].count(")"))
    return f"{next(whole, words).rstrip('.')}."

"""What each setting means: the docstring below its field in the settings class."""

import ast
import inspect
import textwrap
from functools import cache


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

"""Writes the reference pages of the documentation, commands, settings and Python names, from the code."""

import dataclasses
import inspect
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import isopix
from isopix import parts
from isopix.cli.main import command_app
from isopix.core.choices import Range
from isopix.core.config import descriptions, to_dict
from isopix.data.dataset import DataConfig
from isopix.finetuning.classifier import FineTuneConfig
from isopix.model.spec import ModelSpec
from isopix.recipes import registry
from isopix.train.config import TrainConfig

GROUPS = {
    "model": ModelSpec,
    "data": DataConfig,
    "train": TrainConfig,
    "finetune": FineTuneConfig,
}
ROOT = Path(__file__).parents[1]
ROOT_PAGES = ("CHANGELOG", "LOG", "SECURITY")  # pages of the repository that are part of the site
NOTEBOOK = ROOT / "examples" / "isopix.ipynb"


def write(folder: Path) -> None:
    """Replace the pages of a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "commands").mkdir(parents=True)
    for name, text in pages():
        (folder / name).write_text(text)


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every page."""
    commands = dict(command_pages())
    yield from ((f"commands/{name}.md", text) for name, text in commands.items())
    yield "commands.md", commands_index(list(commands))
    yield "settings.md", settings_page()
    yield "recipes.md", recipes_page()
    yield "api.rst", api_page()
    yield "parts.md", f"# isopix.parts\n\n{inspect.getdoc(parts)}\n\n```{{toctree}}\n:hidden:\n\nbases\n```\n"
    yield "bases.rst", bases_page()
    yield "notebook.md", notebook_page()
    for name in ROOT_PAGES:
        yield f"{name.lower()}.md", (ROOT / f"{name}.md").read_text()


def command_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the page of every command, from its docstring."""
    app = command_app()
    text = app.generate_docs(output_format="markdown", recursive=True)
    for section in text.split("\n## isopix ")[1:]:
        name = section.split("\n", maxsplit=1)[0]
        if name.startswith("--"):
            continue
        example = r"(?m)^Example: ([^*]*?)$"
        page = re.sub(example, r"```console\n$ \1\n```", section)
        yield name, f"# isopix {page}".replace("\n### ", "\n## ")


def commands_index(names: list[str]) -> str:
    """Return the page that lists the commands."""
    listed = "\n".join(f"commands/{name}" for name in names)
    return (
        "# Commands\n\n`isopix --help` lists the commands, and `isopix COMMAND --help` shows one of these "
        "pages. A wrong call exits with code 2, a failure with 1, and a stop by a batch system, after which "
        f"the command can be repeated, with 75.\n\n```{{toctree}}\n\n{listed}\n```\n"
    )


def recipes_page() -> str:
    """Return the table of recipes."""
    rows = [(f"`{name}`", text) for name, text in registry.listing().items()]
    return "# Recipes\n\n`isopix show NAME` prints all settings of one.\n\n" + table(
        ["recipe", "description"], rows
    )


def settings_page() -> str:
    """Return all settings: the groups of a recipe, then the parts by noun and kind."""
    lines = [
        "# Settings",
        "",
        "A setting is written as `name=value` after a command, by its full path or by any unambiguous end of "
        "it: `depth=6` is `model.depth=6`. `isopix show RECIPE` prints the values of a recipe and "
        "where each comes from. Defaults here are those of the classes; a recipe replaces some. Sections, "
        "equations and tables in parentheses are those of the paper that a value or method is from.",
    ]
    for path, cls in GROUPS.items():
        lines += ["", f"## {path}", "", summary(cls), "", settings_table(cls, path)]
    for noun, path in paths().items():
        kinds = {} if noun in ("part", "recipe", "analysis") else parts.kinds(noun)
        if kinds:
            lines += ["", f"## {path}", "", f"The {noun.replace('_', ' ')}, one of these kinds:"]
        for kind, cls in kinds.items():
            value = f"{path} {kind}" if path.startswith("isopix ") else f"{path}={kind}"
            within = path if path.startswith(("model", "objective", "data", "train.o", "train.s")) else ""
            lines += ["", f"### {value}", "", summary(cls), "", settings_table(cls, within)]
    return "\n".join(lines) + "\n"


def paths() -> dict[str, str]:
    """Return the setting that selects each part, from the table in the docstring of `isopix.parts`."""
    rows = [
        row.strip("| ").split(" | ") for row in (parts.__doc__ or "").splitlines() if row.startswith("| ")
    ]
    return {noun.strip(): setting.strip("` ") for noun, *_, setting in rows}


def summary(cls: type) -> str:
    """Return the docstring of a class as one line of Markdown per paragraph."""
    return "\n\n".join(" ".join(each.split()) for each in (inspect.getdoc(cls) or "").split("\n\n"))


def settings_table(cls: type, path: str) -> str:
    """Return the settings of a class: name, values, default, meaning."""
    hints, meanings = get_type_hints(cls, include_extras=True), descriptions(cls)
    rows = [
        (
            f"`{path}.{item.name}`" if path else f"`{item.name}`",
            values(hints[item.name]),
            default(item),
            " ".join(meanings.get(item.name, "").split()),
        )
        for item in dataclasses.fields(cls)
    ]
    if not rows:
        return "No settings."
    text = table(["setting", "values", "default", "meaning"], rows)
    return f'<div class="settings">\n\n{text}\n</div>'


def values(hint: Any) -> str:
    """Describe the allowed values of a type."""
    if get_origin(hint) is Annotated:
        inner, *extras = get_args(hint)
        limits = [str(each) for each in extras if isinstance(each, Range)]
        return " ".join([values(inner), *limits])
    if get_origin(hint) is Literal:
        return ", ".join(f"`{each}`" for each in get_args(hint))
    if get_origin(hint) is tuple:
        return f"list: {values(get_args(hint)[0])}"
    if get_args(hint):
        return " or ".join(map(values, get_args(hint)))
    if isinstance(hint, type) and issubclass(hint, parts.Part):
        return f"[{hint.noun.replace('_', ' ')}](#{anchor(hint.noun)})"
    return {bool: "true, false", int: "integer", float: "number", str: "text", type(None): "null"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )


def anchor(noun: str) -> str:
    """Return the anchor of the section of a part."""
    return re.sub(r"[^a-z0-9_ -]", "", paths()[noun].lower()).replace(" ", "-")


def default(item: "dataclasses.Field[Any]") -> str:
    """Return the default of a field, or that it has none."""
    value = item.default
    if item.default_factory is not dataclasses.MISSING:
        value = item.default_factory()
    if value is dataclasses.MISSING:
        return "(required)"
    if isinstance(value, parts.Part):
        return f"`{value.kind}`"
    plain = to_dict(value) if dataclasses.is_dataclass(value) else value
    return f"`{json.dumps(plain)}`".replace('"', "")


def table(header: list[str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(each.replace('|', '¦') for each in line)} |" for line in lines) + "\n"


def api_page() -> str:
    """Return the page of the names of `isopix`."""
    lines = [heading("Python", "="), f"{inspect.getdoc(isopix)}\n"]
    for name in isopix.__all__:
        found = getattr(isopix, name)
        if inspect.ismodule(found) and found is not parts:
            lines += [heading(f"isopix.{name}", "-"), rst(inspect.getdoc(found) or ""), ""]
            lines += [f".. autofunction:: {found.__name__}.{each}\n" for each in functions(found)]
        elif inspect.isclass(found):
            lines += [heading(name, "-"), f".. autoclass:: isopix.{name}\n"]
        elif callable(found):
            lines += [heading(name, "-"), f".. autofunction:: isopix.{name}\n"]
    return "\n".join(lines)


def functions(module: Any) -> list[str]:
    """Return the public functions that a module defines."""
    return [
        name
        for name, found in vars(module).items()
        if inspect.isfunction(found) and found.__module__ == module.__name__ and not name.startswith("_")
    ]


def bases_page() -> str:
    """Return the page of the classes and functions of `isopix.parts`."""
    lines = [heading("Classes and functions of isopix.parts", "=")]
    for name in parts.__all__:
        found = getattr(parts, name)
        if not getattr(found, "__module__", "").startswith("isopix."):
            continue
        if inspect.isclass(found):
            lines += [heading(name, "-"), f".. autoclass:: isopix.parts.{name}\n"]
        elif inspect.isfunction(found):
            lines += [heading(name, "-"), f".. autofunction:: isopix.parts.{name}\n"]
    return "\n".join(lines)


def rst(text: str) -> str:
    """Return a docstring, whose code is between single backticks, as reStructuredText."""
    pieces = re.split(r"(`[^`]+`)", text)
    plain = (re.sub(r"([*|]|(?<=\w)_(?=\W|$))", r"\\\1", piece) for piece in pieces[::2])
    code = (f"`{piece}`" for piece in pieces[1::2])
    return "".join(text for pair in zip_longest(plain, code, fillvalue="") for text in pair)


def heading(text: str, mark: str) -> str:
    """Return a heading of reStructuredText."""
    return f"{text}\n{mark * len(text)}\n"


def notebook_page() -> str:
    """Return the cells of the notebook as a page."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    texts = ("".join(cell["source"]) for cell in cells)
    return (
        "\n\n".join(
            text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
            for cell, text in zip(cells, texts, strict=True)
        )
        + "\n"
    )

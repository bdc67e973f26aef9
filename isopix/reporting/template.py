"""Render the templates of pages, which are in this folder and in those of the studies."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from isopix.core.text import printable_lines
from isopix.core.version import __version__


def render_template(name: str, folder: Path | None = None, **values: Any) -> str:
    """Return a page from a template in `folder`, or here. Text is escaped and made printable; a missing value
    is an error.
    """
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader([folder or here, here]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(name).render(version=__version__, **values)
    return printable_lines(page)

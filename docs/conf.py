"""Sphinx settings of the documentation; `make docs` builds it."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference_pages
from sphinx.application import Sphinx

import isopix

project = "isopix"
copyright = "The isopix authors"
version = release = isopix.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["README.md"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.strikethrough"]

smartquotes = False  # they turn --option into a dash
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = "isopix"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2a5db0", "color-brand-content": "#2a5db0"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"},
}
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
linkcheck_anchors = False

reference_pages.write(Path(__file__).parent / "reference")


def within_site(app: Sphinx, page: str, source: list[str]) -> None:
    """Point links to pages of the repository at their copies; those to its folders become text."""
    for name in reference_pages.ROOT_PAGES:
        for link in (f"](../{name}.md", f"]({name}.md"):
            source[0] = source[0].replace(link, f"](/reference/{name.lower()}.md")
    source[0] = re.sub(r"\[([^]]+)\]\((?:\.\./)+examples/\w+/?\)", r"\1", source[0])
    if page.startswith("reference/"):
        source[0] = re.sub(r"\]\(docs/", "](/", source[0])


def as_rst(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings have code between single backticks."""
    lines[:] = reference_pages.rst("\n".join(lines)).splitlines()


def setup(app: Sphinx) -> None:
    """Connect both."""
    app.connect("source-read", within_site)
    app.connect("autodoc-process-docstring", as_rst)

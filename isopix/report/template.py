"""Template: what every page of a report shares: where its parts lie, and how numbers are written."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from isopix import __version__
from isopix.report import probes
from isopix.report.headline import best, percent


def render(name: str, **values: Any) -> str:
    """The page of that template; a value that is not given is an error, and all text is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "thousands": "{:,}".format,
        "best": best,
        "how": probes.how,
        "concatenated": probes.concatenated,
        "refit": probes.refit,
    }
    return environment.get_template(name).render(version=__version__, **values)

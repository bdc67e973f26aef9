"""`isopix publish`: upload a run's model to the Hugging Face Hub."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import publishing
from isopix.cli.console import Json, Plugins, load_plugins, say, show_json
from isopix.core.choices import ExportFormat

Format = Annotated[
    ExportFormat,
    Parameter(help="isopix: load with isopix.load; huggingface: load with transformers."),
]


def publish(
    run: Path,
    name: str,
    *,
    format: Format = "isopix",
    private: bool = False,
    plugin: Plugins = None,
    json: Json = False,
) -> None:
    """Upload the model of a run to the Hugging Face Hub, with a generated model card.

    Log in first (hf auth login). The repository is created if it does not exist.

    Example: isopix publish runs/photos me/photos-igpt

    Parameters
    ----------
    run
        Run folder, whose newest checkpoint is uploaded, or a folder written by isopix.save.
    name
        Repository on the Hub: owner/name.
    private
        Create a private repository.
    """
    load_plugins(plugin)
    published = publishing.publish(run, name, format=format, private=private)
    if json:
        show_json({"address": published.url, "step": published.step})
    else:
        say(f"published step {published.step} of {run}: {published.url}")

"""`isopix publish`: upload a run's model to the Hugging Face Hub."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from cyclopts import Parameter

from isopix.api.pretrained import Pretrained
from isopix.api.pretrained import publish as publish_isopix
from isopix.cli.console import Json, Plugins, load_plugins, say, show_json
from isopix.cli.loading import load_network
from isopix.interop import hub
from isopix.interop.huggingface import convert as huggingface
from isopix.report.load_run import load_run_or_model
from isopix.report.model_card import model_card

Format = Annotated[
    Literal["isopix", "huggingface"],
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
    loaded = load_network(run, "cpu")
    record = load_run_or_model(run)
    if format == "isopix":
        readme = model_card(record, name=name, library="isopix")
        address = publish_isopix(Pretrained(loaded), name, card=readme, private=private)
    else:
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            readme = model_card(record, name=name, library="transformers")
            huggingface.write_imagegpt(folder, loaded.network, card=readme)
            address = hub.upload(folder, name, private=private)
    if json:
        show_json({"address": address, "step": loaded.step})
    else:
        say(f"published step {loaded.step} of {run}: {address}")

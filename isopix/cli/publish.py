"""`isopix publish`: a run's model on the Hugging Face hub, with its card."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from cyclopts import Parameter

from isopix.api.pretrained import PretrainedModel
from isopix.cli.console import Json, say, show_json
from isopix.cli.loading import network_of
from isopix.interop import hub
from isopix.interop.huggingface import convert as theirs
from isopix.report.load_run import gather_any
from isopix.report.model_card import card

Layout = Annotated[
    Literal["isopix", "huggingface"],
    Parameter(help="isopix: what isopix.load reads; huggingface: what transformers loads"),
]


def publish(
    run: Path, name: str, *, layout: Layout = "isopix", private: bool = False, json: Json = False
) -> None:
    """Upload the model of a run to the Hugging Face hub, with a model card made from the run folder.

    You must be logged in there (hf auth login). The model is made if it does not exist.

    Example: isopix publish runs/photos me/photos-igpt

    Parameters
    ----------
    run
        The run folder, whose newest checkpoint is uploaded, or a folder that isopix.save wrote.
    name
        The model on the hub: owner/name.
    private
        Make it visible to its owner alone.
    """
    loaded = network_of(run, "cpu")
    gathered = gather_any(run)
    if layout == "isopix":
        told = card(gathered, name=name, library="isopix")
        address = PretrainedModel(loaded).publish(name, card=told, private=private)
    else:
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            told = card(gathered, name=name, library="transformers")
            theirs.write_imagegpt(folder, loaded.network, card=told)
            address = hub.upload(folder, name, private=private)
    if json:
        show_json({"address": address, "step": loaded.step})
    else:
        say(f"published step {loaded.step} of {run}: {address}")

"""Publish models on the Hugging Face Hub from Python."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from isopix.api.arguments import checked
from isopix.api.exporting import exported_model
from isopix.api.results import PublishOutput
from isopix.core.choices import ExportFormat
from isopix.interop import hub
from isopix.pretrained.model import PretrainedModel
from isopix.pretrained.run import load_network
from isopix.reporting.model_card import model_card
from isopix.reporting.run_reader import read_run_or_model


@checked
def publish(
    run: PretrainedModel | str | os.PathLike[str],
    name: str,
    *,
    format: ExportFormat = "isopix",
    private: bool = False,
) -> PublishOutput:
    """Upload the model of a run to the Hub model `name` (owner/name).

    The model card is made from the run folder, or is empty for a model without one. The format `isopix` is
    read by `isopix.load`, `huggingface` by `transformers`. Log in first (hf auth login).

    Raises ValueError for an invalid name, RuntimeError if the upload fails.
    """
    library: Literal["isopix", "transformers"] = "isopix" if format == "isopix" else "transformers"
    if isinstance(run, PretrainedModel):
        model, text = run, ""
    else:
        model = PretrainedModel(load_network(Path(run), "cpu"))
        text = model_card(read_run_or_model(Path(run)), name=name, library=library)
    if format == "isopix":
        return PublishOutput(model.publish(name, card=text, private=private), model.loaded.step)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        exported_model(model.loaded).write(folder, card=text)
        return PublishOutput(hub.upload(folder, name, private=private), model.loaded.step)

"""`isopix publish`: upload a run's model to the Hugging Face Hub."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from isopix.core.choices import ExportFormat
from isopix.core.verb import verb
from isopix.interop.results import PublicationResult
from isopix.verbs.options import RunLike

Format = Annotated[ExportFormat, "isopix: load with isopix.load; huggingface: load with transformers."]


@verb()
def publish(
    run: RunLike,
    name: Annotated[str, "Repository on the Hub: owner/name."],
    *,
    format: Format = "isopix",
    private: Annotated[bool, "Create a private repository."] = False,
) -> PublicationResult:
    """Upload the model of a run, or a folder of `isopix.save`, to the Hugging Face Hub, with a model card.

    Log in first (hf auth login). The repository is created if it does not exist.

    Example: isopix publish runs/photos me/photos-igpt
    """
    from isopix.interop.export import exported_model
    from isopix.pretrained.model import PretrainedModel
    from isopix.pretrained.run import load_network
    from isopix.reporting.run_record import read_run_or_model
    from isopix.reporting.summary import model_card
    from isopix.storage import hub

    if isinstance(run, PretrainedModel):
        model, card = run, ""
    else:
        model = PretrainedModel(load_network(Path(run), "cpu"))
        record = read_run_or_model(Path(run))
        card = model_card(record, name=name, library="isopix" if format == "isopix" else "transformers")
    if format == "isopix":
        return PublicationResult(url=model.publish(name, card=card, private=private), step=model.loaded.step)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        exported_model(model.loaded).write(folder, card=card)
        return PublicationResult(url=hub.upload(folder, name, private=private), step=model.loaded.step)

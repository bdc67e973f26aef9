"""`isopix models`: the models that come with the package."""

from isopix.core.verb import verb
from isopix.runs.model_list import ModelList, ShippedModel


@verb(command="models")
def list_models() -> ModelList:
    """List the models that come with isopix; commands accept their names in place of a run folder.

    Test losses are in nats per predicted code, probes are the test accuracy of a linear probe; in parentheses
    the best baseline of each: a neighboring pixel, raw pixels. --json has sizes, counts and commands.

    Example: isopix models
    """
    from isopix.runs.shipped import shipped_models
    from isopix.storage.atomic import read_json

    return ModelList(
        models=tuple(
            ShippedModel(
                name=name,
                folder=folder,
                size=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
                **read_json(folder / "model.json"),
            )
            for name, folder in shipped_models().items()
        )
    )

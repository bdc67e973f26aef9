"""`isopix list`, `show` and `plan`: what comes with isopix, and the settings and cost of a recipe."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from isopix.core.choices import MFU, Range
from isopix.core.text import Table
from isopix.core.verb import verb
from isopix.recipes.results import BestSize, PlanResult, RecipeSettings
from isopix.reporting.results import RunRow, runs_table
from isopix.storage.result import Result
from isopix.verbs.options import DeviceLike, PathLike, RecipeLike, Settings, SettingsFile

Price = Annotated[Annotated[float, Range(low=0)] | None, "Price of a device hour, in any currency."]
Utilization = Annotated[
    Annotated[float, Range(above=0, high=1)],
    "Assumed model FLOPs utilization (MFU): fraction of the peak of the device.",
]
Minutes = Annotated[
    Annotated[float, Range(above=0)] | None, "Show the best size for this many minutes of training."
]


@verb()
def plan(
    recipe: RecipeLike,
    *settings: Settings,
    file: SettingsFile = None,
    price: Price = None,
    minutes: Minutes = None,
    mfu: Utilization = MFU,
    device: DeviceLike = "auto",
) -> PlanResult:
    """Estimate parameters, FLOPs per image, memory and training time of a recipe; writes nothing.

    Example: isopix plan igpt.l --price 2.5

    Example: isopix plan modern.tiny --minutes 60
    """
    from isopix.core import device as hardware
    from isopix.recipes import cost, registry

    found = registry.resolve(recipe, file=file, settings=settings).recipe
    where, train, model = hardware.select_device(device), found.train, found.model
    costs, precision = cost.recipe_cost(found), train.precision_on(where)
    flops = costs.training_flops * train.steps * train.batch_size
    memory = cost.recipe_memory(found.updated(precision=precision))
    known = hardware.peak_flops(where, precision)
    flops_per_second = known or cost.matmul_throughput(where, precision, model.width)
    best: tuple[BestSize, ...] = ()
    if minutes is not None:
        from isopix.studies.scaling.best_size import best_sizes

        best = tuple(best_sizes(found, 60 * minutes * mfu * flops_per_second))
    return PlanResult(
        recipe=found.name,
        size=f"depth {model.depth}, width {model.width}",
        positions=found.grid.positions,
        steps=train.steps,
        batch_size=train.batch_size,
        accumulate=train.accumulate,
        precision=precision,
        gpu_precision=train.gpu_precision,
        **costs._asdict(),
        **memory._asdict(),
        step_bytes=memory.step_bytes(train.batch_size // train.accumulate),
        free_bytes=hardware.free_memory(where),
        device=hardware.describe_device(where),
        images_per_second=mfu * flops_per_second / costs.training_flops,
        peak="data-sheet peak" if known else "measured matmul throughput",
        mfu=mfu,
        price=price,
        device_hours=tuple(cost.device_costs(flops, train.gpu_precision, mfu=mfu, price_per_hour=price)),
        minutes=minutes,
        best_sizes=best,
    )


Shown = Annotated[PathLike | RecipeLike, "Recipe or model from `isopix list`, or a run folder."]


@verb()
def show(source: Shown, *settings: Settings, file: SettingsFile = None) -> RecipeSettings:
    """Show every setting of a recipe or run as a YAML file, with meanings and origins of changed values.

    Settings of a run are compared with its recipe.

    Example: isopix show igpt.tiny depth=4

    Example: isopix show runs/photos > photos.yaml
    """
    from isopix.recipes import registry
    from isopix.runs.load import find_model, saved_recipe

    given = os.fspath(source) if isinstance(source, os.PathLike) else source
    if not isinstance(given, str) or (given in registry.RECIPES and not Path(given).exists()):
        found = registry.resolve(given, file=file, settings=settings, search=True)
    elif settings or file:
        raise ValueError("a run has the settings of its training; leave out other settings and files")
    else:
        found = registry.compared(saved_recipe(find_model(Path(given))))
    return RecipeSettings(recipe=found.recipe.name, settings=tuple(registry.settings(found)))


@dataclass(frozen=True, kw_only=True)
class ShippedModel:
    """The record of a model that comes with the package.

    `test_loss` is in nats per predicted code, `probe_accuracy` that of a linear probe on test images; the
    best baselines are learning-free on the same images.
    """

    objective: str
    data: str
    parameters: int
    test_images: int
    test_loss: float
    best_baseline: tuple[str, float]
    probe_accuracy: float | None
    best_probe_baseline: tuple[str, float] | None
    command: str

    @property
    def row(self) -> tuple[str, ...]:
        loss = f"{self.test_loss:.3f} ({self.best_baseline[1]:.3f})"
        probe, baseline = self.probe_accuracy, self.best_probe_baseline
        shown = "" if probe is None or baseline is None else f"{probe:.1%} ({baseline[1]:.1%})"
        return self.objective, self.data, loss, shown


class Listing(Result):
    """Models that come with isopix, and the descriptions of recipes and protocols, by name."""

    models: Mapping[str, ShippedModel] = field(default_factory=dict)
    recipes: Mapping[str, str] = field(default_factory=dict)
    protocols: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[RunRow, ...] = ()

    def tables(self) -> list[Table]:
        caption = "Models: test loss in nats per code and probe accuracy (best baseline)"
        columns = ["name", "objective", "data", "test loss", "probe"]
        tables = [
            Table(caption, columns, [(name, *each.row) for name, each in self.models.items()]),
            Table("Recipes", ["name", "description"], list(self.recipes.items())),
            Table("Protocols", ["name", "experiment"], list(self.protocols.items())),
        ]
        return [each for each in tables if each.rows] + ([runs_table(self.runs)] if self.runs else [])

    def notes(self) -> list[str]:
        return [f"try: isopix sample {name}" for name in [*self.models][:1]]


Kind = Literal["models", "recipes", "protocols", "runs"]
What = Annotated[Kind | None, "What to list. By default, models, recipes and protocols."]
Folder = Annotated[Path | None, "Folder of runs."]


@verb(command="list")
def list_models(what: What = None, folder: Folder = None) -> Listing:
    """List models that come with isopix, recipes, protocols of `isopix reproduce`, or the runs in a folder.

    Commands accept the name of a model instead of a run folder. Test losses are in nats per predicted code,
    probe results are test accuracies of a linear probe, and the best baselines are in parentheses. Recipes
    are sorted by paper and size; large families are one name pattern. Runs: settings that differ.

    Example: isopix list recipes
    """
    from isopix.core.config import from_dict
    from isopix.recipes import registry
    from isopix.recipes.finetuning import FINETUNING
    from isopix.reporting.page import read_runs
    from isopix.reporting.run_record import NUMBERS
    from isopix.reporting.summary import run_rows
    from isopix.runs.load import shipped_models
    from isopix.storage.atomic import read_json
    from isopix.storage.run_folder import RunFolder, runs_in
    from isopix.studies.papers.protocol import protocols

    if (what == "runs") is not (folder is not None):
        problem = "missing FOLDER" if folder is None else "only runs are in a folder"
        raise ValueError(f"{problem}: isopix list runs FOLDER")
    if folder is not None:
        runs = [RunFolder.open(each) for each in runs_in(folder)]
        if not runs:
            raise ValueError(f"no run in {folder}; give a folder of runs")
        return Listing(runs=run_rows(read_runs(runs, NUMBERS)))
    tuning = {name: f"Settings of isopix finetune RUN --file {name}" for name in FINETUNING}
    files = {name: folder / "model.json" for name, folder in shipped_models().items()}
    readers: dict[str, Callable[[], Any]] = {
        "models": lambda: {name: from_dict(ShippedModel, read_json(file)) for name, file in files.items()},
        "recipes": lambda: registry.listing() | tuning,
        "protocols": protocols,
    }
    return Listing(**{kind: read() for kind, read in readers.items() if what in (kind, None)})

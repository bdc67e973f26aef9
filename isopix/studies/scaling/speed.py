"""The speed run: minutes of pre-training to a fixed accuracy of linear probes."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from isopix.recipes import registry
from isopix.recipes.cost import training_flops
from isopix.reporting.section import write_page
from isopix.studies.scaling.results import TARGET_ACCURACY, TARGET_SEEDS, SpeedResult
from isopix.studies.scaling.study import EVALUATED, NetworkCell, ScalingTrial
from isopix.studies.study import Study
from isopix.studies.trial import RIDGE

RECORDS = {file.stem: file for file in Path(__file__).parent.joinpath("records").glob("*.yaml")}
PROBED = {"train": 45_000, "validation": 5000, "test": 10_000}


class SpeedStudy(Study[ScalingTrial]):
    """Minutes of pre-training without labels to 45.0% of a linear probe on CIFAR-10, record by record."""

    name: ClassVar[str] = "speed"
    file: ClassVar[str] = "speed.json"
    seeds: ClassVar[Mapping[str, int]] = {"tiny": TARGET_SEEDS}
    jobs: ClassVar[int | None] = 1
    result: ClassVar[type[SpeedResult]] = SpeedResult

    @classmethod
    def cells(cls, scale: str) -> list[str]:
        return sorted(RECORDS, key=lambda name: int(name.partition("-")[0]))

    def trial(self, cell: str, seed: int) -> ScalingTrial:
        recipe = registry.resolve(cell.split("-")[1], file=RECORDS[cell]).recipe
        recipe = self.resolved(recipe, seed, EVALUATED, f"evaluate_every={recipe.train.steps}")
        where = NetworkCell(cell, training_flops(recipe))
        return ScalingTrial(self.path, cell, recipe, where, self.probe(RIDGE), PROBED, untrained=True)

    def write_up(self) -> SpeedResult:
        page = self.path / "report.html"
        texts = {name: RECORDS[name].read_text().partition("\n")[0].lstrip("# ") for name in self.plan.cells}
        counts = ", ".join(f"{count:,} {name} at most" for name, count in PROBED.items())
        facts = self.facts(probe=self.probe(RIDGE).label(), **{"probe images": counts})
        result = SpeedResult(facts=facts, trials=self.results(), texts=texts).saved(page)
        headline = f"Minutes of pre-training to {TARGET_ACCURACY:.1%} of a linear probe"
        lead = "Pre-training sees no labels; validation images choose layer and penalty of a probe."
        write_page(page, result, [], title="Speed run", headline=headline, lead=lead)
        return result

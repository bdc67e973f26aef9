"""The result of `isopix verify`: a checkpoint whose hashes match, and its test loss."""

import math
from dataclasses import dataclass

from isopix.core.table import Table
from isopix.storage.result import Result


@dataclass(frozen=True)
class PublishedLoss:
    """A loss in nats per predicted code, published in `source` after `step` steps, measured by `protocol`."""

    nats: float
    source: str
    protocol: str
    step: int


class VerificationResult(Result):
    """The test loss of a model in nats per predicted code, next to the published one, if there is one for
    this network and palette. The hashes of all `files` of `checkpoint` match its manifest.

    `imported` is what a converted model was read from; one without a step in its name has step 0.
    `uniform_nats` is the loss of a uniform prediction, None for a regression.
    """

    recipe: str
    step: int
    imported: str | None
    checkpoint: str
    files: tuple[str, ...]
    palette: str
    palette_is_openai: bool
    data: str
    images: int
    precision: str
    loss_nats: float
    uniform_nats: float | None
    published: PublishedLoss | None

    def tables(self) -> list[Table]:
        """Return the losses in nats and bits."""
        assert self.measurement
        rows = [(f"this model, {self.measurement.line}", self.loss_nats)]
        if self.published:
            rows.append(
                (f"published ({self.published.source}): {self.published.protocol}", self.published.nats)
            )
        if self.uniform_nats is not None:
            rows.append(("uniform prediction", self.uniform_nats))
        bits = [(name, f"{nats:.4f}", f"{nats / math.log(2):.4f}") for name, nats in rows]
        origin = f", imported from {self.imported}" if self.imported else ""
        caption = f"Loss per predicted code: {self.recipe}, step {self._step}{origin}"
        return [Table(caption, ["model", "nats", "bits"], bits)]

    def notes(self) -> list[str]:
        """Return what was checked, and the difference from the published loss."""
        owner = "OpenAI's" if self.palette_is_openai else "custom"
        lines = [
            f"{self.checkpoint}: all {len(self.files)} files match the hashes of the manifest",
            f"palette: {owner}, fingerprint {self.palette[:12]}",
        ]
        if self.published is None:
            lines.append("no published loss for this network and palette")
        else:
            if self.step != self.published.step:
                lines.append(f"published loss: step {self.published.step:,}; this model: step {self._step}")
            difference = self.loss_nats - self.published.nats
            lines.append(
                f"difference from the published loss: {difference:+.4f} nats (note the images of each)"
            )
        return [*lines, *super().notes()]

    @property
    def _step(self) -> str:
        return "unknown" if self.imported and not self.step else f"{self.step:,}"

"""The result of `claims`, without PyTorch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isopix.core.text import Table
from isopix.storage.result import Result
from isopix.studies.inductive_bias.results import ClaimRecord, contrast_row


@dataclass(frozen=True)
class PublishedNumber:
    """A cell of a paper's table, and that of a reproduction, if there is one; `status` says why not."""

    paper: str
    place: str
    row: str
    column: str
    published: str
    ours: str = ""
    status: str = ""


class ClaimsResult(Result):
    """Claims on which of two numbers is larger, with their verdicts by source, and published numbers."""

    claims: Mapping[str, tuple[ClaimRecord, ...]]
    numbers: tuple[PublishedNumber, ...]

    def tables(self) -> list[Table]:
        columns = ["claim", "contrast", "mean", "95% interval", "n", "verdict"]
        found = [Table(source, columns, _claim_rows(own)) for source, own in self.claims.items()]
        numbers = [[*vars(each).values()] for each in self.numbers]
        names = ["paper", "place", "row", "column", "published", "ours", "status"]
        return [*found, Table("Published numbers", names, numbers)]


def _claim_rows(claims: tuple[ClaimRecord, ...]) -> list[tuple[Any, ...]]:
    rows = list[tuple[Any, ...]]()
    for claim in claims:
        rows.append((claim.source, claim.claim, "", "", "", claim.verdict))
        for each in claim.contrasts:
            _, text, mean, interval, verdict = contrast_row(each)
            rows.append(("", text, mean, interval, len(each.values), verdict))
    return rows

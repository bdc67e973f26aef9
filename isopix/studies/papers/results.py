"""The result of `claims`, without PyTorch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from isopix.core.text import Table
from isopix.storage.result import Result
from isopix.studies.inductive_bias.results import ClaimRecord, contrast_row


@dataclass(frozen=True)
class PublishedRow:
    """A row of a paper's table, and the same method of reproductions; `status` says why there is none."""

    place: str
    method: str
    data: str
    published: str
    ours: str = ""
    status: str = ""


class ClaimsResult(Result):
    """Published numbers, and verdicts on claims: on those of which of two numbers is larger, whose networks
    are in `folder`, and on the ten of each study, by its folder and by pool.
    """

    folder: str
    claims: tuple[ClaimRecord, ...]
    studies: Mapping[str, Mapping[str, tuple[ClaimRecord, ...]]]
    numbers: tuple[PublishedRow, ...]

    def tables(self) -> list[Table]:
        columns = ["place", "claim, contrast", "mean", "95% interval", "n", "verdict"]
        names = ["place", "method", "data", "published", "ours", "status"]
        rows = [[*vars(each).values()] for each in self.numbers]
        found = [
            Table(f"Claims, from {self.folder}", columns, list(_claim_rows(self.claims))),
            *(_study_table(folder, own) for folder, own in self.studies.items()),
            Table("Published numbers: losses in nats, all others in per cent", names, rows),
        ]
        return [each for each in found if each.rows]


def _claim_rows(claims: tuple[ClaimRecord, ...]) -> Iterator[tuple[Any, ...]]:
    for claim in claims:
        verdict = claim.verdict if claim.contrasts else "not run: --budget trains for it"
        yield claim.source, claim.claim, "", "", "", verdict
        for each in claim.contrasts:
            _, text, mean, interval, decided = contrast_row(each)
            yield "", text, mean, interval if each.interval else "", len(each.values), decided


def _study_table(folder: str, pools: Mapping[str, tuple[ClaimRecord, ...]]) -> Table:
    """Return the verdicts of a study, without contrasts, which its page has."""
    columns = ["place", "claim", *(f"verdict, pool {pool}" for pool in pools)]
    same = zip(*pools.values(), strict=True)
    rows = [(own[0].source, own[0].claim, *(each.verdict for each in own)) for own in same]
    return Table(f"Convolutions, mixers and transformers, from {folder}", columns, rows)

"""PatchFormer (ICLR 2020 submission): tables 1 and 2, accuracies on ImageNet in per cent."""

from collections.abc import Mapping

from isopix.papers.tables import PublishedRow, Value

FRACTIONS = ("1%", "10%", "20%")  # of the labels


def _row(method: str, accuracies: Mapping[str, float], source: str = "") -> PublishedRow:
    cells: dict[str, Value | str] = {
        f"{fraction} of the labels": Value(accuracy) for fraction, accuracy in accuracies.items()
    }
    return PublishedRow(method, "imagenet-1k", cells, source)


TOP_1 = (
    _row("CPC++", {}, "not known"),
    _row("Selfie", {"10%": 61.9, "20%": 67.1}),
    _row("PatchFormer", {"1%": 30.3, "10%": 65.5, "20%": 70.2}),
)
TOP_5 = (
    _row("CPC++", {"1%": 64.03, "10%": 84.88, "20%": 88.5}, "20 %: read from a plot"),
    _row("Selfie", {}, "not known"),
    _row("PatchFormer", {"1%": 52.0, "10%": 82.3, "20%": 87.6}),
)

"""The table of claims: numbers as text, and marks and bars on a scale that contrasts of one unit share."""

from collections.abc import Mapping, Sequence
from typing import Any

Values = Mapping[str, Any]

MISSING = "–"
WIDTH = 95.0  # of a bar, from the middle; the drawing ends at 100


def claims_view(claims: Sequence[Values]) -> list[dict[str, Any]]:
    """Return the claims of claims.json with what the page shows of each contrast."""
    scales = _scales(claims)
    return [_claim_view(claim, scales) for claim in claims]


def _claim_view(claim: Values, scales: Mapping[str, float]) -> dict[str, Any]:
    """Return a claim; what hinders a decision is said once if it is the same for all its contrasts."""
    notes = {_note(each) for each in claim["contrasts"] if each["counted"]}
    shared = notes.pop() if len(notes) == 1 else ""
    contrasts = [contrast_view(each, scales) for each in claim["contrasts"]]
    if shared:
        contrasts = [{**each, "note": ""} for each in contrasts]
    return {**claim, "note": shared, "contrasts": contrasts}


def contrast_view(contrast: Values, scales: Mapping[str, float]) -> dict[str, Any]:
    """Return a contrast with its mark, bar and ticks, from -100 to 100 around zero."""
    scale = WIDTH / scales.get(contrast["unit"], 1.0)

    def place(value: float) -> float:
        return max(-100.0, min(100.0, scale * value))

    center, interval = contrast["mean"], contrast["interval"]
    return {
        **contrast,
        "point": None if center is None else place(center),
        "whisker": None if interval is None else tuple(map(place, interval)),
        "ticks": [place(each) for each in contrast["by_kind"].values()],
        "number": MISSING if center is None else f"{signed(center)} {contrast['unit']}".strip(),
        "spread": _interval_text(contrast),
        "note": _note(contrast),
        "kinds": ", ".join(f"{name} {signed(value)}" for name, value in contrast["by_kind"].items()),
    }


def _note(contrast: Values) -> str:
    """Return what hinders a decision; empty where there is one, and for a contrast that is only shown."""
    if not contrast["counted"]:
        return ""
    return str(contrast["regime"] or contrast["needed"])


def signed(value: float) -> str:
    """Return three digits with a sign, as `+0.25` and `−3.1`."""
    text = f"{value:+.3g}" if abs(value) < 100 else f"{value:+.0f}"
    return text.replace("-", "−")


def _scales(claims: Sequence[Values]) -> dict[str, float]:
    """Return the largest distance from zero of any interval or kind, by unit."""
    found = dict[str, float]()
    for contrast in (contrast for claim in claims for contrast in claim["contrasts"]):
        center = [] if contrast["mean"] is None else [contrast["mean"]]
        values = [*center, *(contrast["interval"] or ()), *contrast["by_kind"].values()]
        reach = max((abs(value) for value in values), default=0.0)
        found[contrast["unit"]] = max(found.get(contrast["unit"], 1e-12), reach)
    return found


def _interval_text(contrast: Values) -> str:
    if contrast["interval"] is None:
        return "not run" if contrast["mean"] is None else "one seed"
    low, high = map(signed, contrast["interval"])
    return f"{low} to {high}"

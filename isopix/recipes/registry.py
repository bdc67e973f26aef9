"""Catalogue: every recipe by its name, and changed settings with the origin of each."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from isopix.core.config import to_dict
from isopix.core.overrides import flatten, override, parse, read_values, resolve_path
from isopix.recipes import igpt, isotropic, patchformer, tiny, vit
from isopix.recipes.recipe import Recipe

Make = Callable[[], Recipe]
SIZE, SIDES = "data.size", ("data.rows", "data.cols")

# Who made it, by what stands before the dot; the function's name stands behind it.
GROUPS: dict[str, tuple[Make, ...]] = {
    "igpt": (
        tiny.digits,
        tiny.digits_bert,
        tiny.tiny,
        tiny.tiny_bert,
        igpt.s,
        igpt.s_bert,
        igpt.m,
        igpt.m_bert,
        igpt.l,
        igpt.l_bert,
        igpt.xl,
    ),
    "patchformer": (patchformer.tiny, patchformer.base),
    "vit": (vit.tiny, vit.tiny_axial, vit.tiny_hybrid, vit.b16, vit.l16, vit.h14),
}
SINGLE: dict[str, Make] = {
    f"{group}.{make.__name__}": make for group, makes in GROUPS.items() for make in makes
}
# Families of one recipe for each block, encoding and depth, by what stands before these three in the name.
FAMILIES = {
    "isotropic.tiny-": isotropic.tiny,
    "isotropic.small-": isotropic.small,
    "isotropic.": isotropic.paper,
}
RECIPES: dict[str, Make] = SINGLE | {
    f"{prefix}{block}-{encoding}-{depth}": partial(family, block, encoding, depth)
    for prefix, family in FAMILIES.items()
    for block, encoding, depth in isotropic.CELLS
}


class Resolved(NamedTuple):
    """A recipe after all changes, and where each value that is not the recipe's own came from, by path."""

    recipe: Recipe
    origins: dict[str, str]


def listing() -> dict[str, str]:
    """What there is, and what it is: every single recipe, and every family under the pattern of its names."""
    named = {f"{prefix}BLOCK-ENCODING-DEPTH": family for prefix, family in FAMILIES.items()}
    return {name: " ".join((function.__doc__ or "").split()) for name, function in (SINGLE | named).items()}


def find(name: str) -> Recipe:
    """The recipe of that name; raises ValueError that lists what there is."""
    if name not in RECIPES:
        close = difflib.get_close_matches(name, RECIPES, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise ValueError(f"unknown recipe '{name}'; {hint}recipes: {', '.join(listing())}")
    return RECIPES[name]()


def resolve(
    name: str,
    *,
    file: Path | None = None,
    options: dict[str, Any] | None = None,
    assignments: Sequence[str] = (),
) -> Resolved:
    """Recipe < file < options of the command < `path=value` words; later ones win. Raises ValueError,
    naming the path.
    """
    layers = [
        (f"file {file}", flatten(read_values(file)) if file else {}),
        ("option", {path: value for path, value in (options or {}).items() if value is not None}),
        ("command line", parse(assignments)),
    ]
    layers = [(origin, sized(changes)) for origin, changes in layers]
    recipe = find(name)
    origins: dict[str, str] = {}
    for origin, changes in layers:
        recipe = override(recipe, changes)
        values = to_dict(recipe)
        origins |= {resolve_path(values, path): origin for path in changes}
    left = flatten(to_dict(recipe))
    for path in sorted(origins.keys() - left.keys()):
        if not any(each.startswith(f"{path}.") for each in left):
            raise ValueError(f"'{path}' of the {origins[path]} does not go with what was set after it")
    return Resolved(recipe, origins)


def sized(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes with rows and columns for a `data.size`, the side of square images; either may differ."""
    rest = {path: value for path, value in changes.items() if path not in (SIZE, "size")}
    side = {**changes}.get(SIZE, changes.get("size"))
    return rest if side is None else dict.fromkeys(SIDES, side) | rest


def settings(resolved: Resolved) -> list[tuple[str, Any, str]]:
    """Every setting as (path, value, origin), in the order of the dataclass."""
    values = flatten(to_dict(resolved.recipe))
    return [(path, value, resolved.origins.get(path, "recipe")) for path, value in values.items()]

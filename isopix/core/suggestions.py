"""Suggestions for misspelled names."""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

SIMILARITY, OF_PATHS = 0.6, 0.75  # of a suggestion, by difflib's ratio

# Names of settings in other libraries, for suggestions.
SETTING_SYNONYMS = {
    "learning_rate": "lr",
    "epochs": "steps",
    "layers": "depth",
    "num_layers": "depth",
    "dim": "width",
    "embed_dim": "width",
    "hidden_size": "width",
    "image_size": "rows",
    "img_size": "rows",
    "resolution": "rows",
}


def did_you_mean(given: str, names: Iterable[str], *, similarity: float = SIMILARITY) -> str:
    """Return "did you mean 'NAME'? " if one of the names is similar to the given one, else nothing."""
    found = difflib.get_close_matches(given, list(names), n=1, cutoff=similarity)
    return f"did you mean '{found[0]}'? " if found else ""


def similar_paths(path: Path, *, folders: bool = False) -> list[str]:
    """Return the path, or none, next to one that does not exist, whose name is most similar; with `folders`,
    that of a folder. Hidden ones are left out.
    """
    try:
        with os.scandir(path.parent) as entries:
            names = [each.name for each in entries if each.is_dir() or not folders]
    except OSError:
        return []
    shown = sorted(name for name in names if not name.startswith("."))
    found = difflib.get_close_matches(path.name, shown, n=1, cutoff=OF_PATHS)
    return [str(path.parent / name) for name in found]

"""Models that come with the package: finished runs in `isopix/shipped`, without what only training needs."""

import shutil
from logging import getLogger
from pathlib import Path
from tempfile import mkdtemp

from isopix.core.text import command_line, did_you_mean
from isopix.recipes import registry
from isopix.storage.checkpoint import MANIFEST

FOLDER = Path(__file__).parents[1] / "shipped"
COPIES = Path("runs")  # in the current folder: the package cannot be written

logger = getLogger("isopix")


def shipped_models() -> dict[str, Path]:
    """Return the folders of all models by name."""
    return {path.parent.name: path.parent for path in sorted(FOLDER.glob("*/recipe.json"))}


def find_model(path: Path) -> Path:
    """Return the folder in the package for the name of a model, and any other path as it is.

    Raises ValueError for a name alone that is a recipe's, or almost that of a model.
    """
    name, models = str(path), shipped_models()
    if path.exists() or len(path.parts) > 1:
        return path
    if name in models:
        return models[name]
    if name in registry.RECIPES:
        train = command_line("pretrain", name, "--out", COPIES / name)
        raise ValueError(f"'{name}' is a recipe, of which no weights come with isopix; to train it: {train}")
    if hint := did_you_mean(name, models):
        raise ValueError(f"no run folder or model '{name}'; {hint}models: {', '.join(models)}")
    return path


def writable_model(path: Path) -> Path:
    """Return a path that exists as it is; for the name of a model its copy `runs/NAME`, made if needed."""
    source = find_model(path)
    if source == path:
        return path
    copy = COPIES / path
    if not copy.exists():
        _copy(source, copy)
        logger.warning("%s comes with isopix; it is copied to %s, where its results are saved", path, copy)
    elif _manifests(copy) != _manifests(source):
        raise ValueError(
            f"{copy} is another run than the model {path} that comes with isopix; give its path, or move it"
        )
    return copy


def find_copy(path: Path) -> Path:
    """Return `runs/NAME` for the name of a model, made if there is none yet, and any other path as it is."""
    if path.parent == COPIES and path.name in shipped_models() and not path.exists():
        return writable_model(Path(path.name))
    return path


def shipped_copy(path: Path) -> Path | None:
    """Return `runs/NAME` for the name of a model that comes with isopix, and None for any other path."""
    return COPIES / path if str(path) in shipped_models() else None


def _copy(source: Path, copy: Path) -> None:
    """Copy a folder; of several processes one succeeds, and a kill leaves no part of it under its name."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(mkdtemp(prefix=f".{copy.name}-", dir=copy.parent))
    try:
        shutil.copytree(source, temporary / "run")
        (temporary / "run").rename(copy)
    except OSError:
        if not copy.exists():  # else another process has made it
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _manifests(run: Path) -> list[bytes]:
    return [each.read_bytes() for each in sorted(run.glob(f"checkpoints/*/{MANIFEST}"))]

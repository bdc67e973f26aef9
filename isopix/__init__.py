"""isopix: isotropic networks over pixels. Pre-train image models by predicting pixels, measure what they have
learned, show it.

Arguments of these types are::

    RunLike     a Run, a model of `load`, a run folder, or the name of a model that comes with isopix
    DataLike    a dataset: the path of one, or a name (cifar10, digits); or images, with or without labels:
                arrays [n H W 3], PIL images, files or their bytes in a list, or a dataset of PyTorch
    ImagesLike  an image or several: files, PIL images, arrays or tensors of any size
    MaskLike    bool [H W], True where hidden; a black and white picture; or text: "rectangle:8,8,16,16"
    DeviceLike  a torch.device or its name, or "auto"
    Count       an integer, 1 or more
"""

import importlib
from typing import TYPE_CHECKING, Any

from isopix.core.version import __version__

if TYPE_CHECKING:
    from isopix import parts
    from isopix.core.progress import show_progress
    from isopix.core.registry import load_plugin
    from isopix.core.signals import Interrupted
    from isopix.pretrained.features import Features
    from isopix.pretrained.images import make_grid
    from isopix.pretrained.model import PretrainedModel
    from isopix.pretrained.run import Run, load
    from isopix.verbs.catalog import list_models, plan, show
    from isopix.verbs.data import data_show, palette
    from isopix.verbs.doctor import doctor
    from isopix.verbs.evaluate import compare, evaluate
    from isopix.verbs.features import features, predict
    from isopix.verbs.import_export import export, import_model
    from isopix.verbs.pretrain import finetune, pretrain, resume
    from isopix.verbs.probe import probe
    from isopix.verbs.report import demo, open_studio, report
    from isopix.verbs.reproduce import reproduce
    from isopix.verbs.sample import complete, reconstruct, sample
    from isopix.verbs.score import analyze, neighbors, score

# The module of each name that is no verb, imported on first use, so that `import isopix` imports no torch.
_MODULES = {
    "Features": "isopix.pretrained.features",
    "Interrupted": "isopix.core.signals",
    "PretrainedModel": "isopix.pretrained.model",
    "Run": "isopix.pretrained.run",
    "load": "isopix.pretrained.run",
    "load_plugin": "isopix.core.registry",
    "make_grid": "isopix.pretrained.images",
    "show_progress": "isopix.core.progress",
}


def __getattr__(name: str) -> Any:
    if name == "parts":
        return importlib.import_module("isopix.parts")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    if name == "__all__":
        return sorted([*_MODULES, *_verbs(), "__version__", "parts"])
    if name.startswith("_") or name not in _verbs():
        raise AttributeError(f"module 'isopix' has no attribute '{name}'")
    return _verbs()[name]


def _verbs() -> dict[str, Any]:
    importlib.import_module("isopix.verbs")
    verbs = importlib.import_module("isopix.core.verb").VERBS.values()
    return {each.name: each.function for each in verbs}


def __dir__() -> list[str]:
    return sorted({*__getattr__("__all__"), *(name for name in globals() if name.startswith("__"))})

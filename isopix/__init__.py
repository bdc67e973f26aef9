"""isopix: isotropic networks over pixels. Pre-train image models by predicting pixels, measure what they have
learned, show it.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isopix.api import convert, palette, study
    from isopix.api.evaluation import evaluate, low_data, probe, verify
    from isopix.api.features import Features
    from isopix.api.generation import complete, reconstruct, sample
    from isopix.api.inspection import analyze, plan, report
    from isopix.api.pretrained import PretrainedModel, load, save
    from isopix.api.publishing import publish
    from isopix.api.run import Interrupted, Run
    from isopix.api.training import finetune, pretrain, resume, search_lr

__version__ = "0.1.0"
__all__ = [
    "Features",
    "Interrupted",
    "PretrainedModel",
    "Run",
    "__version__",
    "analyze",
    "complete",
    "convert",
    "evaluate",
    "finetune",
    "load",
    "low_data",
    "palette",
    "plan",
    "pretrain",
    "probe",
    "publish",
    "reconstruct",
    "report",
    "resume",
    "sample",
    "save",
    "search_lr",
    "study",
    "verify",
]

# The module of isopix.api that defines each name; modules with several functions stand for themselves.
_MODULES = {
    "convert": ("convert",),
    "evaluation": ("evaluate", "low_data", "probe", "verify"),
    "features": ("Features",),
    "generation": ("complete", "reconstruct", "sample"),
    "inspection": ("analyze", "plan", "report"),
    "palette": ("palette",),
    "pretrained": ("PretrainedModel", "load", "save"),
    "publishing": ("publish",),
    "run": ("Interrupted", "Run"),
    "study": ("study",),
    "training": ("finetune", "pretrain", "resume", "search_lr"),
}
_EXPORTS = {name: module for module, names in _MODULES.items() for name in names}


class _Package(ModuleType):
    """Imports an exported name on first use, so that `import isopix` does not import torch.

    `probe`, `report` and `finetune` are names of subpackages too, and Python assigns an imported subpackage
    to the attribute of its name: here the attributes stay the functions.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in _EXPORTS:
            raise AttributeError(f"module 'isopix' has no attribute '{name}'")
        module = importlib.import_module(f"isopix.api.{_EXPORTS[name]}")
        value = module if name == _EXPORTS[name] else getattr(module, name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _EXPORTS or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package

"""The machine and the result of a benchmark as one JSON object."""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from isopix import __version__
from isopix.core import device as devices


def without_folder(word: str) -> str:
    """Return a command-line argument without the folders of this machine."""
    return Path(word).name if Path(word).is_absolute() else word


def print_result(benchmark: str, device: torch.device | str = "cpu", **values: Any) -> None:
    """Print the JSON object of a benchmark."""
    environment = devices.runtime_environment(torch.device(device))
    head = {
        "benchmark": benchmark,
        "isopix": __version__,
        **environment,
        "command": " ".join(["python", *map(without_folder, sys.argv)]),
    }
    print(json.dumps({**head, **values}, indent=2))

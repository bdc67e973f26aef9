"""Several processes of one command, each with a device of its own, by the engine of torchrun."""

import logging
import os
import sys
from dataclasses import fields
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NoReturn
from uuid import uuid4

from cyclopts import Parameter

from isopix.cli.console import warn
from isopix.cli.rank_errors import STOP_FILE
from isopix.core import ranks
from isopix.core.device import available_cores, list_devices, select_device
from isopix.core.signals import STOP_SIGNALS, STOPPED

Devices = Annotated[
    int | None,
    Parameter(help="Use this many GPUs of this machine, a process for each. On several machines: torchrun."),
]

SHUTDOWN_SECONDS = 600  # to save, after a stop signal, before processes are killed


def launch_ranks(count: int | None, device: str) -> None:
    """Start this command again in `count` processes, and exit as they do; not for None, and in one of them.

    Raises ValueError for less than one, and for more than the machine's GPUs.
    """
    if count is None or ranks.are_started():
        return
    if count < 1:
        raise ValueError(f"devices is {count}; allowed: 1 or more")
    available = len(list_devices(device))
    if select_device(device).type != "cpu" and count > available:
        raise ValueError(f"devices is {count}; available with device {device}: {available}")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // count)))
    _launch(count)


def _launch(count: int) -> NoReturn:
    # Imported here, as it takes a second.
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException  # noqa: PLC0415
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch  # noqa: PLC0415

    logging.disable()  # of the engine, whose modules set levels of their own
    settings: dict[str, Any] = {
        "min_nodes": 1,
        "max_nodes": 1,
        "nproc_per_node": count,
        "run_id": uuid4().hex,
        "rdzv_backend": "c10d",
        "rdzv_endpoint": "localhost:0",
        "max_restarts": 0,
        "signals_to_handle": ",".join(each.name for each in STOP_SIGNALS),
        "shutdown_timeout": SHUTDOWN_SECONDS,
    }
    known = {field.name for field in fields(LaunchConfig)}  # of this version of PyTorch
    with TemporaryDirectory(prefix="isopix-launch-") as folder:
        settings["logs_specs"] = DefaultLogsSpecs(folder)  # else it leaves a folder behind
        config = LaunchConfig(**{name: value for name, value in settings.items() if name in known})
        stop_file = Path(folder, "stopped")
        os.environ[STOP_FILE] = str(stop_file)
        try:
            elastic_launch(config, sys.executable)("-m", "isopix", *sys.argv[1:])
        except SignalException as stopped:
            _warn_of_stop(stop_file)
            received = Signals(stopped.sigval)
            sys.exit(128 + received if received is Signals.SIGINT else STOPPED)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            if failure.exitcode < 0:  # else it has said why
                warn(f"isopix: rank {rank} was ended by {Signals(-failure.exitcode).name}")
            elif rank == 0:
                _warn_of_stop(stop_file)
            sys.exit(max(1, failure.exitcode))
    sys.exit(0)


def _warn_of_stop(file: Path) -> None:
    if file.exists():
        warn(file.read_text())

"""A command in several processes: ranks on this machine by torchrun's engine, or a job of SLURM."""

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import fields
from io import StringIO
from pathlib import Path
from shlex import quote
from signal import Signals
from typing import Annotated, Any, NoReturn, cast
from uuid import uuid4

from cyclopts import Parameter

from isopix.cli.console import say, show_json, warn
from isopix.core import ranks
from isopix.core.overrides import parse
from isopix.core.signals import STOP_SIGNALS, StopSignal, exit_code
from isopix.core.slurm import Cluster, CommandJob, job_executor
from isopix.core.text import command_line
from isopix.storage.atomic import scratch_folder
from isopix.verbs import VERBS

Devices = Annotated[
    int | None,
    Parameter(help="Use this many GPUs of this machine, a process for each. On several machines: torchrun."),
]
SlurmParameters = Annotated[
    list[str] | None,
    Parameter(
        name="--slurm",
        consume_multiple=True,
        help="Run as a SLURM job with these submitit parameters, e.g. --slurm partition=gpu timeout_min=240.",
    ),
]

SHUTDOWN_SECONDS = 600  # to save, after a stop signal, before processes are killed
SAME_ERROR = 5.0  # seconds that other ranks leave to rank 0, whose error is usually the same
LOST_CONTACT = 5.0  # seconds that a rank leaves to the one that it has lost contact with
CONNECTION_ERRORS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
STOP_FILE = "ISOPIX_STOP_FILE"  # the environment variable with the path of an exit code and a message
CANCEL: dict[Cluster, str] = {"slurm": "scancel {}", "local": "kill -INT {}"}


def launch_ranks(count: int | None, device: str) -> None:
    """Start this command again in `count` processes, and exit as they do; not for None, or in one of them."""
    if count is None or ranks.are_started():
        return
    if count < 1:
        raise ValueError(f"devices is {count}; allowed: 1 or more")
    # Imported here, as help needs no torch.
    from isopix.core.device import available_cores, list_devices, select_device  # noqa: PLC0415

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
    with scratch_folder("launch") as folder:
        settings["logs_specs"] = DefaultLogsSpecs(folder)  # else it leaves a folder behind
        config = LaunchConfig(**{name: value for name, value in settings.items() if name in known})
        stop_file = Path(folder, "stopped")
        os.environ[STOP_FILE] = str(stop_file)
        try:
            elastic_launch(config, sys.executable)("-m", "isopix", *sys.argv[1:])
        except SignalException as stopped:
            _exit_as_rank_0(stop_file, exit_code(StopSignal(stopped.sigval, at_once=False)))
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            if failure.exitcode < 0:  # else it has said why
                warn(f"isopix: rank {rank} was ended by {Signals(-failure.exitcode).name}")
            elif rank == 0:
                _exit_as_rank_0(stop_file, failure.exitcode)
            sys.exit(max(1, failure.exitcode))
    sys.exit(0)


def _exit_as_rank_0(file: Path, code: int) -> NoReturn:
    """Exit with the code and the message that rank 0 left when it was stopped, else with `code`."""
    left, _, message = (file.read_text() if file.exists() else str(code)).partition(" ")
    if message:
        warn(message)
    sys.exit(int(left))


def check_command(name: str) -> None:
    """Raise ValueError for a command that torchrun has started in several processes, and that uses one."""
    if ranks.num_ranks() > 1 and not VERBS[name].parallel:
        allowed = ", ".join(each.command for each in VERBS.values() if each.parallel)
        raise ValueError(f"{name} runs in one process, without torchrun; commands for several: {allowed}")


def of_rank(message: str) -> str:
    """Return an error message with the rank of this process, if there are several.

    The first that ends with an error ends the others, whose error is likely a consequence: they wait.
    """
    if ranks.num_ranks() == 1:
        return message
    lost = any(each in message for each in CONNECTION_ERRORS)
    try:
        time.sleep(LOST_CONTACT if lost else SAME_ERROR if ranks.rank() else 0)
    except KeyboardInterrupt:
        sys.exit(1)
    text = f"lost contact with another rank: {message}" if lost else message
    return f"rank {ranks.rank()}: {text}"


def say_stop(message: str, code: int) -> None:
    """Print the message of a stop, or leave it and the exit code to the process of `--devices`."""
    if file := os.environ.get(STOP_FILE):
        Path(file).write_text(f"{code} {message}")
    elif message:
        warn(message)


def submit(
    slurm: Sequence[str] | None,
    out: Path,
    check: Callable[[int], None],
    *,
    devices: int | None = None,
    parallel: bool = True,
    json: bool,
) -> None:
    """Submit this command as a job, after `check` of its number of processes, and print how to follow it."""
    if devices is not None:
        raise ValueError(f"--devices is for this machine; with --slurm write gpus_per_node={devices}")
    given = parse(slurm or ())
    cluster = given.pop("cluster", "slurm")
    if cluster not in CANCEL:
        raise ValueError(f"cluster is {cluster!r}; allowed: {', '.join(CANCEL)}")
    tasks, nodes = _tasks(given)
    if tasks * nodes > 1 and not parallel:
        raise ValueError(f"this command runs in one process, not in {tasks * nodes} (nodes x gpus_per_node)")
    parameters = {"name": "isopix", "stderr_to_stdout": True, **given, "tasks_per_node": tasks}
    folder = out.absolute().with_name(f"{out.absolute().name}.slurm")
    executor = job_executor(folder, parameters, cluster=cast(Cluster, cluster))
    check(tasks * nodes)
    import submitit  # noqa: PLC0415 - an extra

    with submitit.helpers.clean_env(), redirect_stderr(StringIO()):  # which repeats sbatch's errors
        job = executor.submit(CommandJob(tuple(sys.argv[1:])))
    log, cancel = job.paths.stdout, CANCEL[cluster].format(job.job_id)
    if json:
        show_json({"job": job.job_id, "run": str(out), "output": str(log), "cancel": cancel})
        return
    say(f"submitted job {job.job_id}: {command_line(*sys.argv[1:])}")
    say(f"watch with: tail -F {quote(str(log))}")
    say(f"cancel with: {cancel}")


def _tasks(given: Mapping[str, Any]) -> tuple[int, int]:
    if "gpus_per_task" in given:
        raise ValueError("gpus_per_task hides the GPUs of a machine from each other; use gpus_per_node")
    nodes, gpus = given.get("nodes", 1), given.get("gpus_per_node", 0)
    tasks = given.get("tasks_per_node", gpus or 1)
    for name, count, least in (("nodes", nodes, 1), ("gpus_per_node", gpus, 0), ("tasks_per_node", tasks, 1)):
        if not isinstance(count, int) or count < least:
            raise ValueError(f"{name} is {count}; allowed: {least} or more")
    if gpus and tasks != gpus:
        raise ValueError(f"tasks_per_node is {tasks} and gpus_per_node {gpus}; each process has one GPU")
    return tasks, nodes

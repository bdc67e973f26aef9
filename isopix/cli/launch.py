"""A command in several processes: ranks on this machine, or a job of SLURM."""

import math
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from shlex import quote
from signal import SIGKILL, SIGTERM, Signals
from subprocess import Popen
from typing import Annotated, Any, cast

from cyclopts import Parameter

from isopix.cli.console import say, show_json, warn
from isopix.core import ranks
from isopix.core.overrides import parse
from isopix.core.signals import (
    STOPPED,
    StopSignal,
    blocked_stop_signals,
    exit_code,
    handled_by,
    stop_message,
)
from isopix.core.slurm import Cluster, CommandJob, job_executor
from isopix.core.text import command_line
from isopix.verbs import VERBS

Devices = Annotated[
    int | None,
    Parameter(help="Number of GPUs of this machine, one process each. For several machines, use torchrun."),
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
PATIENCE = 5.0  # seconds that a rank leaves to rank 0, or to the one lost, whose error says more
CONNECTION_ERRORS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
POLL_SECONDS = 0.1
HOST = "127.0.0.1"
CANCEL: dict[Cluster, str] = {"slurm": "scancel {}", "local": "kill -INT {}"}


def launch_ranks(count: int | None, device: str) -> None:
    """Start this command again in `count` processes, and exit as they do; not for None, or in one of them."""
    if count is None or ranks.are_started():
        return
    if count < 1:
        raise ValueError(f"devices is {count}; allowed: 1 or more")
    # Imported here, as help needs no torch.
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415

    from isopix.core.device import available_cores, list_devices, select_device  # noqa: PLC0415

    on_cpu = select_device(device).type == "cpu"
    available = available_cores() if on_cpu else len(list_devices(device))
    if count > available:
        raise ValueError(f"devices is {count}; available with device {device}: {available}")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // count)))
    listener = socket.create_server((HOST, 0))  # that of the store would accept other machines
    port = listener.getsockname()[1]
    store = TCPStore(HOST, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    launched = Ranks()
    with handled_by(lambda number, frame: launched.signals.append(number)):
        with blocked_stop_signals():  # by the processes, until they handle them
            launched.processes += [_start(rank, count, store.port) for rank in range(count)]
        code = launched.wait()
    sys.exit(code)


class Ranks:
    """This command in several processes; `signals` are passed on to them."""

    def __init__(self) -> None:
        self.processes, self.signals = list["Popen[bytes]"](), list[int]()
        self.passed_on, self.deadline = 0, math.inf
        self.failed: int | None = None

    def wait(self) -> int:
        """Return the exit code of rank 0, or of the first that fails."""
        while self._is_running():
            time.sleep(POLL_SECONDS)
        code = self.processes[self.failed or 0].returncode
        if code >= 0:
            return code  # it has said why
        if self.failed is not None:
            warn(f"isopix: rank {self.failed} was ended by {Signals(-code).name}")
            return 1
        stopped = StopSignal(self.signals[0], at_once=False)
        warn(f"isopix: {stop_message(stopped)}")
        return exit_code(stopped)

    def _is_running(self) -> bool:
        """Whether ranks run; the first that fails ends the others."""
        codes = [each.poll() for each in self.processes]
        wrong = [rank for rank, code in enumerate(codes) if code not in (None, 0, STOPPED)]
        if wrong and not self.signals:
            self.failed = wrong[0]
            self.signals.append(SIGTERM)
        new, late = self.signals[self.passed_on :], time.monotonic() > self.deadline
        for number in [SIGKILL] if late else new:
            self.deadline = time.monotonic() + SHUTDOWN_SECONDS
            for each in self.processes:
                each.send_signal(number)
        self.passed_on += len(new)
        return None in codes


def _start(rank: int, count: int, port: int) -> "Popen[bytes]":
    variables: dict[str, object] = dict.fromkeys(("RANK", "LOCAL_RANK"), rank)
    variables |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), count)
    variables |= {"MASTER_ADDR": HOST, "MASTER_PORT": port, ranks.LAUNCHED: 1}
    variables["TORCHELASTIC_USE_AGENT_STORE"] = True  # that of this process
    quiet = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # else lost connections print C++ stacks
    environment = quiet | os.environ | {name: str(value) for name, value in variables.items()}
    command = [sys.executable, "-m", "isopix", *sys.argv[1:]]
    return Popen(command, env=environment, start_new_session=True)


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
        time.sleep(PATIENCE if lost or ranks.rank() else 0)
    except KeyboardInterrupt:
        sys.exit(1)
    text = f"lost contact with another rank: {message}" if lost else message
    return f"rank {ranks.rank()}: {text}"


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

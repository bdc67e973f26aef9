"""The executor that submits jobs to SLURM: that of submitit, an optional package, with checked parameters."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from isopix.core.suggestions import did_you_mean

Cluster = Literal["slurm", "local"]

# Parameters with one name on every cluster; submitit takes all others as slurm_NAME.
SHARED_PARAMETERS = (
    *("mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node", "timeout_min", "name"),
    "stderr_to_stdout",
)
NUM_REQUEUES = 100  # after a time limit; submitit's own default of 3 is too few for a long training
TIMEOUT_MIN = 5  # submitit's default
SIGNAL_DELAY = {"slurm": 90, "local": 30}  # submitit's defaults: seconds from the signal to the time limit
EARLY = {"slurm": 60, "local": 0}  # seconds by which the signal may come earlier
# SLURM requeues the job after the failure of a node, and ends all of its tasks after that of one.
REQUEUE, END_TOGETHER = {"requeue": True}, ["--kill-on-bad-exit"]
ADDITIONAL = "additional_parameters"  # of sbatch that submitit does not know


def job_executor(folder: Path, parameters: Mapping[str, Any], *, cluster: Cluster = "slurm") -> Any:
    """Return submitit's executor of jobs that log to `folder`; its cluster "local" is this machine.

    Raises ValueError without submitit and for unknown or wrong parameters, RuntimeError without SLURM.
    """
    try:
        import submitit  # noqa: PLC0415 - an extra
    except ImportError:
        raise ValueError("SLURM jobs need submitit: pip install 'isopix[slurm]'") from None
    if cluster == "slurm" and not (shutil.which("sbatch") and shutil.which("srun")):
        raise RuntimeError("SLURM's sbatch and srun are not on the PATH; submit where they are")
    given = _grouped(parameters)
    requeues = given.pop("max_num_timeout", NUM_REQUEUES)
    _check_names(given, submitit.SlurmExecutor._valid_parameters())
    _check_time(given, cluster)
    if not isinstance(requeues, int) or requeues < 0:
        raise ValueError(f"max_num_timeout is {requeues}; allowed: 0 or more requeues")
    given[ADDITIONAL] = {**REQUEUE, **given.get(ADDITIONAL, {})}
    given.setdefault("srun_args", END_TOGETHER)
    executor = submitit.AutoExecutor(
        folder=folder, cluster=cluster, **{f"{cluster}_max_num_timeout": requeues}
    )
    named = {key if key in SHARED_PARAMETERS else f"slurm_{key}": each for key, each in given.items()}
    try:
        executor.update_parameters(**named)
    except (NameError, TypeError, ValueError, AssertionError) as error:
        raise ValueError(f"submitit does not accept these parameters: {error}") from None
    return executor


def _grouped(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters such as `additional_parameters.reservation` as one dictionary of that name."""
    given = {name: each for name, each in parameters.items() if not name.startswith(f"{ADDITIONAL}.")}
    others = {name.partition(".")[2]: parameters[name] for name in parameters.keys() - given.keys()}
    return given | ({ADDITIONAL: others} if others else {})


def _check_names(parameters: Mapping[str, Any], of_slurm: set[str]) -> None:
    allowed = sorted({*SHARED_PARAMETERS, "max_num_timeout", *of_slurm})
    for name in parameters:
        if name not in allowed:
            hint = did_you_mean(name, allowed)
            raise ValueError(f"unknown SLURM parameter '{name}'; {hint}submitit has: {', '.join(allowed)}")


def _check_time(parameters: Mapping[str, Any], cluster: Cluster) -> None:
    """Raise ValueError for a time limit that leaves no time before the signal that asks to save."""
    minutes = parameters.get("timeout_min", TIMEOUT_MIN)
    delay = parameters.get("signal_delay_s", SIGNAL_DELAY[cluster])
    numbers = isinstance(minutes, int | float) and isinstance(delay, int)
    if "time" not in parameters and numbers and 60 * minutes <= delay + EARLY[cluster]:
        raise ValueError(
            f"timeout_min is {minutes}, but the job is asked to save {delay} seconds (signal_delay_s) before "
            f"that, or up to {EARLY[cluster]} earlier; give it more time"
        )

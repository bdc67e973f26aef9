"""Checks that need PyTorch: the device, its driver and threads, memory, and a tiny training."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from isopix.api.training import pretrain
from isopix.core import device as hardware
from isopix.core.device import DeviceLike
from isopix.core.memory import free_memory, total_memory
from isopix.core.text import format_bytes
from isopix.data.batches import SHARED_MEMORY
from isopix.pretrained.loading import load, save
from isopix.pretrained.run import Run
from isopix.verbs.doctor import Check
from isopix.verbs.verify import verify

MIN_MEMORY, MIN_SHARED = 2 * 2**30, 65 * 2**20  # bytes; 64 MiB is the default of containers
MAX_DIFFERENCE = 1e-4  # nats: the same weights, in batches of other sizes
TINY = ("steps=30", "depth=2", "width=32", "batch_size=32", "lr=0.01", "log_every=1", "data.limit=200")


def device_checks(device: DeviceLike) -> Iterator[Check]:
    """Yield what is known of the device, its driver, the threads and the memory.

    Raises ValueError if the device is not available.
    """
    chosen = hardware.select_device(device)
    yield Check("device", "ok", hardware.describe_device(chosen))
    yield _cuda()
    threads, cores = torch.get_num_threads(), hardware.available_cores()
    yield Check("threads", "ok", f"{threads} of {cores} cores")
    yield _precision(chosen)
    for each in dict.fromkeys((torch.device("cpu"), chosen)):
        yield _memory(each)
    if SHARED_MEMORY.is_dir():
        yield _shared_memory()


def _cuda() -> Check:
    build, driver = hardware.cuda_build(), hardware.nvidia_driver()
    found = f"driver {driver or 'none'}, torch is built for {f'CUDA {build}' if build else 'the CPU'}"
    if driver and not hardware.has_cuda():
        action = (
            "update the driver, or install a build of torch for an older CUDA"
            if build
            else "to use the GPU, install a CUDA build of torch"
        )
        return Check("cuda", "warning", f"{found}, which cannot use the GPU", action)
    return Check("cuda", "ok", found)


def _precision(device: torch.device) -> Check:
    precision = hardware.native_precision(device)
    emulated = ", as bf16 would be emulated" if precision == "fp32" else ""
    return Check("precision", "ok", f"{precision}{emulated}")


def _memory(device: torch.device) -> Check:
    free, total = free_memory(device), total_memory(device)
    found = f"{format_bytes(free)} free of {format_bytes(total)}"
    name = "memory" if device.type == "cpu" else f"memory of {device.type}"
    if free < MIN_MEMORY:
        return Check(name, "warning", found, "close other programs, or train smaller batches: batch_size=8")
    return Check(name, "ok", found)


def _shared_memory() -> Check:
    total, _, free = shutil.disk_usage(SHARED_MEMORY)
    found = f"{format_bytes(free)} free of {format_bytes(total)} in {SHARED_MEMORY}"
    if total < MIN_SHARED:
        action = "start the container with more, as in docker run --shm-size 2g, or train with data.workers=0"
        return Check("shared memory", "warning", found, action)
    return Check("shared memory", "ok", found)


def training_checks(device: DeviceLike) -> Iterator[Check]:
    """Yield whether the loss of a tiny training falls, and whether its weights are saved and read unchanged.

    Errors become failures.
    """
    with tempfile.TemporaryDirectory(prefix="isopix-doctor-") as name:
        try:
            run = pretrain("igpt.digits", data="digits", out=Path(name, "run"), overrides=TINY, device=device)
            yield _loss(run)
            yield _weights(run, Path(name), device)
        except (ValueError, RuntimeError, OSError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            yield Check("training", "failed", reason, "see the other checks; else report it as a bug")


def _loss(run: Run) -> Check:
    losses = [record["loss_nats"] for record in run.metrics.history if record["kind"] == "train"]
    found = f"loss {losses[0]:.3f} to {losses[-1]:.3f} nats in {len(losses)} steps"
    if losses[-1] < 0.9 * losses[0]:
        return Check("training", "ok", found)
    return Check("training", "failed", found, f"{run.device} computes wrong numbers: try --device cpu")


def _weights(run: Run, folder: Path, device: DeviceLike) -> Check:
    """Check that the saved network has the loss of the trained one, and that a copy has the same weights."""
    trained, saved = run.metrics.test["loss_nats"], verify(run, device=device).loss_nats
    save(run.model, folder / "copy")
    copy = load(folder / "copy", device=device).state_dict()
    if abs(trained - saved) > MAX_DIFFERENCE:
        found = f"test loss {trained:.4f} nats in training, {saved:.4f} when loaded"
        return Check("saved weights", "failed", found, "check the disk; else report it as a bug")
    if not all(torch.equal(copy[name], tensor) for name, tensor in run.model.state_dict().items()):
        return Check("saved weights", "failed", "a copy differs from its original", "check the disk")
    return Check("saved weights", "ok", f"loaded unchanged: test loss {saved:.4f} nats")

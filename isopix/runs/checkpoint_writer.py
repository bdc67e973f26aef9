"""Writes the checkpoints of a run, on request in a thread while training continues."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from isopix.finetuning.classifier import FineTuneModel
from isopix.model.network import Network
from isopix.runs.state import CLASSIFIER, MODEL, SavedRun
from isopix.storage import checkpoint
from isopix.storage.checkpoint import Groups
from isopix.storage.run_folder import RunFolder
from isopix.train.parallel import is_sharded, shard_like, write_shards

NUM_CHECKPOINTS = 2  # the older one serves if the newer is damaged


class CheckpointWriter:
    """Writes one checkpoint at a time, `in_background` from a copy; the next call raises its error."""

    def __init__(self, folder: RunFolder, *, in_background: bool):
        self.folder, self.in_background = folder, in_background
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def save(self, target: Path, tensors: Groups, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Save a checkpoint once the last is complete, of shards each rank its own; keep two of steps."""
        self.wait()
        sharded = {group: members for group, members in tensors.items() if is_sharded(members.values())}
        if self.folder.saved_at is not None:
            if sharded:
                write_shards(sharded)
            return
        if sharded:
            whole = {group: members for group, members in tensors.items() if group not in sharded}
            self._write(target, whole, records, partial(write_shards, sharded))
            return
        if not self.in_background or self.folder.target is not None:
            self._write(target, tensors, records)
            return
        copied = {
            group: {name: tensor.detach().to("cpu", copy=True) for name, tensor in members.items()}
            for group, members in tensors.items()
        }
        self._pending = self._executor.submit(self._write, target, copied, records)

    def check(self) -> None:
        """Raise the error of a checkpoint that could not be written; does not wait."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        self._executor.shutdown()

    def _write(
        self,
        target: Path,
        tensors: Groups,
        records: Mapping[str, Mapping[str, Any]],
        write_more: Callable[[Path], None] = lambda folder: None,
    ) -> None:
        if not self.folder.path.is_dir():
            raise RuntimeError(
                f"run folder {self.folder.path} was moved or deleted; resume it where it is now"
            )
        checkpoint.save_checkpoint(target, tensors, records, write_more)
        checkpoint.prune(self.folder.checkpoints, NUM_CHECKPOINTS)


def weights_of(network: Network, model: FineTuneModel | None) -> dict[str, Mapping[str, Tensor]]:
    """Return the weights, and those of the class head if there is one, by group; sharded ones are sharded."""
    groups: dict[str, Mapping[str, Tensor]] = {MODEL: network.tensors()}
    if model is not None:
        groups[CLASSIFIER] = {name: each.detach() for name, each in model.head.state_dict().items()}
    return groups


def load_weights(network: Network, model: FineTuneModel | None, saved: SavedRun) -> None:
    """Copy the weights of a checkpoint of the same run into a network, and its class head if there is one."""
    for group, tensors in weights_of(network, model).items():
        for name, tensor in tensors.items():
            tensor.copy_(shard_like(saved.tensors[group][name], tensor))

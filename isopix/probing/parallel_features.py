"""Features that several processes compute together, each with a device of its own.

Rank 0 does all of the work. The others have the same networks and images, wait for its requests, which name a
network and a view, and compute their share of the batches.
"""

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar, cast

import torch
import torch.distributed as dist

from isopix.core import ranks
from isopix.probing.feature_extraction import FeatureSource, NetworkFeatures, View
from isopix.probing.feature_splits import Features
from isopix.probing.features import BatchSlice
from isopix.train.parallel import barrier, is_parallel, shared_store

POLL_SECONDS = 0.05  # between looks at whether rank 0 has sent something

T = TypeVar("T")


class Request(NamedTuple):
    """Ask for a view of a network, which must have this identity."""

    network: str
    view: str
    identity: str


class End(NamedTuple):
    """The work of rank 0 is done; None if it has failed."""

    result: tuple[object] | None


class Messages:
    """Messages of rank 0 to all others, in order, which may wait for hours and be interrupted meanwhile."""

    def __init__(self) -> None:
        self._store, self._number = shared_store(), 0

    def send(self, message: Request | End) -> None:
        self._store.set(self._next_key(), pickle.dumps(message))  # type: ignore[arg-type]  # bytes, too

    def receive(self) -> Request | End:
        """Wait for the next message. Raises RuntimeError if there will be none."""
        key = self._next_key()
        while not (ended := ranks.is_abandoned()) and not self._store.check([key]):
            time.sleep(POLL_SECONDS)
        if ended:  # and with it the store
            raise RuntimeError("the process that started this one has ended")
        return cast("Request | End", pickle.loads(self._store.get(key)))

    def _next_key(self) -> str:
        self._number += 1
        return str(self._number)


@dataclass(frozen=True)
class SharedFeatures:
    """Features of a network as rank 0 reads them: its own share, and those that it receives."""

    name: str
    source: NetworkFeatures
    messages: Messages

    @property
    def first_layer(self) -> int:
        return self.source.first_layer

    @property
    def mask_ensemble(self) -> int:
        return self.source.mask_ensemble

    def identity(self) -> str:
        return self._identity

    def read(self, view: View) -> Iterator[Features]:
        self.messages.send(Request(self.name, view.name, self._identity))
        count, left = dist.get_world_size(), len(view.images)
        for own in self.source.read(view, BatchSlice(step=count)):
            yield own
            layers, size, width = own.shape
            left -= size
            for rank in range(1, count):
                if not left:
                    break
                received = torch.empty(layers, min(size, left), width, dtype=own.dtype)
                dist.recv(received, src=rank)
                left -= received.shape[1]
                yield received

    @cached_property
    def _identity(self) -> str:
        return self.source.identity()


def with_shared_features(
    networks: Mapping[str, NetworkFeatures],
    views: Sequence[View],
    work: Callable[[Mapping[str, FeatureSource]], T],
) -> T:
    """Call `work` with the features of `networks` in rank 0, while the others compute their share of `views`;
    return its result in all of them.

    Batches are the same for any number of processes. Raises what `work` raises; in the other ranks
    RuntimeError if rank 0 has failed, or has other weights or settings.
    """
    if not is_parallel():
        return work(networks)
    messages = Messages()
    if dist.get_rank() > 0:
        return cast("T", _serve(networks, views, messages))
    try:
        result = work({name: SharedFeatures(name, each, messages) for name, each in networks.items()})
    except BaseException:
        with suppress(RuntimeError):  # the others have ended already
            messages.send(End(None))
        raise
    messages.send(End((result,)))
    barrier()  # rank 0 may hold the messages
    return result


def _serve(networks: Mapping[str, NetworkFeatures], views: Sequence[View], messages: Messages) -> object:
    """Compute the share of this rank for each request, and return the result of rank 0."""
    share = BatchSlice(first=dist.get_rank(), step=dist.get_world_size())
    identities = {name: source.identity() for name, source in networks.items()}
    by_name = {view.name: view for view in views}
    while isinstance(message := messages.receive(), Request):
        if identities[message.network] != message.identity:
            raise RuntimeError(f"the {message.network} network is not that of rank 0: has the run gone on?")
        for batch in networks[message.network].read(by_name[message.view], share):
            dist.send(batch.contiguous(), dst=0)
    if message.result is None:
        raise RuntimeError("rank 0 has failed")
    barrier()
    return message.result[0]

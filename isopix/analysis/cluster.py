"""Cluster: devices that train together, and the time that their messages take."""

import re
from math import ceil, log2
from typing import NamedTuple

from isopix.core.choices import MFU
from isopix.core.device import Precision, peak_flops_by_device
from isopix.core.device_specs import DEVICE_SPECS, GB, NETWORK_HOP, NODE_DEVICES, LinkSpec

# Of the data sheet's bandwidth, what large messages reach.
LINK_UTILIZATION = 0.8
PATTERN = re.compile(r"(\d+)(?: *[x×*] *(\S.*))?", re.IGNORECASE)


class Cluster(NamedTuple):
    """`nodes` machines, each with `per_node` devices. A device reaches `flops` FLOP/s, has `memory` bytes and
    reads or writes `memory_bandwidth` bytes a second. All devices together send messages at `bandwidth`
    bytes a second each, in rings; `hop` and `network_hop` are the seconds from one device to the next, in the
    same node and in another. Without `overlaps`, devices do not compute while they exchange messages.
    """

    device: str
    nodes: int
    per_node: int
    flops: float
    memory: int
    memory_bandwidth: float
    bandwidth: float
    hop: float = 0.0
    network_hop: float = NETWORK_HOP
    overlaps: bool = True

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return self.nodes * self.per_node

    @property
    def name(self) -> str:
        """The cluster as in `--devices`."""
        return f"{self.num_devices}x{self.device}"

    def sent(self, size: int) -> float:
        """Return the bytes that each device sends, and receives, to gather or to reduce-scatter a tensor of
        `size` bytes. An all-reduce does both.
        """
        return size * (self.num_devices - 1) / self.num_devices

    def gather_seconds(self, size: int, messages: int = 1) -> float:
        """Return the seconds to gather, or to reduce-scatter, `size` bytes in this many messages."""
        return self.sent(size) / self.bandwidth + messages * self._ring_hops()

    def all_reduce_seconds(self, size: int, messages: int = 1) -> float:
        """Return the seconds to sum `size` bytes over all devices in this many messages: along a ring, or
        along trees, which have fewer hops, as NCCL does.
        """
        trees = (self.per_node - 1) * self.hop + ceil(log2(self.nodes)) * self.network_hop
        return 2 * self.sent(size) / self.bandwidth + 2 * messages * min(self._ring_hops(), trees)

    def _ring_hops(self) -> float:
        return (self.num_devices - self.nodes) * self.hop + (self.nodes - 1) * self.network_hop


def parse_cluster(
    text: str,
    precision: Precision,
    *,
    own_device: str | None = None,
    mfu: float = MFU,
    node_bandwidth: float | None = None,
) -> Cluster:
    """Return the cluster of `64xH100`: nodes of up to eight devices, at `mfu` of their data-sheet peak and at
    `LINK_UTILIZATION` of the bandwidth of their links. A number alone is that of `own_device`.

    `node_bandwidth` is that between nodes, in bytes a second of a whole node in one direction, instead of the
    data sheet's. Raises ValueError for text that is not so, and for a device or a network that is not known.
    """
    if not 0 < mfu <= 1:
        raise ValueError(f"utilization {mfu} must be in (0, 1]")
    if node_bandwidth is not None and not 0 < node_bandwidth < float("inf"):
        raise ValueError(f"node_bandwidth is {node_bandwidth / GB:g} GB/s; allowed: a finite number above 0")
    found = PATTERN.fullmatch(text.strip())
    if not found or not int(found[1]):
        raise ValueError(f"devices '{text}'; allowed: a number of at least 1, x, and a device, as in 64xH100")
    device = _known(found[2] or own_device, text, precision)
    spec = DEVICE_SPECS[device]
    assert spec.links is not None
    nodes, per_node = _split(int(found[1]))
    return Cluster(
        device,
        nodes,
        per_node,
        flops=mfu * peak_flops_by_device(precision)[device],
        memory=spec.memory,
        memory_bandwidth=spec.memory_bandwidth,
        bandwidth=LINK_UTILIZATION * _link_bandwidth(device, spec.links, nodes, node_bandwidth),
        hop=spec.links.hop,
    )


def _known(name: str | None, text: str, precision: Precision) -> str:
    peaks = peak_flops_by_device(precision)
    known = {_plain(each): each for each, spec in DEVICE_SPECS.items() if spec.links and each in peaks}
    if name is None:
        raise ValueError(
            f"devices '{text}' names no device, and this machine's has no data sheet here; allowed: "
            f"{text}xNAME, of {', '.join(known.values())}"
        )
    if _plain(name) not in known:
        raise ValueError(
            f"devices '{text}': no {precision} peak and links of '{name}' are known; allowed: "
            f"{', '.join(known.values())}"
        )
    return known[_plain(name)]


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _split(count: int) -> tuple[int, int]:
    """Return the smallest number of equal nodes of so many devices, and the devices in each."""
    per_node = next(each for each in range(NODE_DEVICES, 0, -1) if count % each == 0)
    return count // per_node, per_node


def _link_bandwidth(device: str, links: LinkSpec, nodes: int, between: float | None) -> float:
    """Return the bytes a second that a ring over all devices carries, from each to the next.

    A ring crosses from node to node once for each of a node's network adapters, so that a node's devices
    share its bandwidth.
    """
    if nodes == 1:
        return links.within
    between = links.between if between is None else between
    if between is None:
        raise ValueError(
            f"devices {device}: no network between nodes is known; give its node_bandwidth, or at most "
            f"{NODE_DEVICES} devices"
        )
    return min(links.within, between)

"""Facts of devices from their vendors' data sheets; the only table of devices."""

from typing import NamedTuple

GB = 10**9
# Seconds from one device to the next in a ring of NCCL, within a node and between nodes: its own estimates
# (`hwLat` in src/graph/tuning.cc, ring, protocol Simple). No data sheet states them.
NVLINK_HOP, PCIE_HOP, NETWORK_HOP = 3.4e-6, 5.7e-6, 14e-6
NODE_DEVICES = 8


class LinkSpec(NamedTuple):
    """Bytes a second in one direction: `within` a node, of each device; `between` nodes, of a whole node of
    `NODE_DEVICES` as its vendor sells it, None if it sells none. `hop` is in seconds.
    """

    within: float
    between: float | None
    hop: float


class DeviceSpec(NamedTuple):
    """Dense peak FLOP/s, None if it is not stated; bytes of memory, and bytes a second of it; None for links
    to which PyTorch's NCCL does not apply.
    """

    bf16: float
    fp32: float | None
    memory: int
    memory_bandwidth: float
    links: LinkSpec | None


# NVLink is sold by the sum of both directions, network adapters by one; network of a node in Gb/s:
NVLINK_5 = LinkSpec(900e9, 8 * 50e9, NVLINK_HOP)  # 1.8 TB/s; DGX B200: 8 ConnectX-7 at 400
NVLINK_4 = LinkSpec(450e9, 8 * 50e9, NVLINK_HOP)  # 900 GB/s; DGX H100 and H200: 8 ConnectX-7 at 400
NVLINK_3 = LinkSpec(300e9, 8 * 25e9, NVLINK_HOP)  # 600 GB/s; DGX A100: 8 ConnectX-6 at 200
NVLINK_2 = LinkSpec(150e9, 4 * 12.5e9, NVLINK_HOP)  # 300 GB/s; DGX-1: 4 ConnectX-4 at 100
PCIE_5 = LinkSpec(64e9, None, PCIE_HOP)  # 16 lanes
PCIE_4 = LinkSpec(32e9, None, PCIE_HOP)

# By the name under which they are rented; without a size of memory, the larger one. The V100's 16-bit value
# is for fp16; a TPU core is half a chip.
DEVICE_SPECS = {
    "B200": DeviceSpec(2250e12, 75e12, 180 * GB, 8e12, NVLINK_5),  # an eighth of a DGX B200
    "H200": DeviceSpec(989e12, 67e12, 141 * GB, 4.8e12, NVLINK_4),
    "H100": DeviceSpec(989e12, 67e12, 80 * GB, 3.35e12, NVLINK_4),  # SXM
    "H100 PCIe": DeviceSpec(756e12, 51e12, 80 * GB, 2e12, PCIE_5),
    "A100": DeviceSpec(312e12, 19.5e12, 80 * GB, 2.039e12, NVLINK_3),  # SXM
    "A100 40GB": DeviceSpec(312e12, 19.5e12, 40 * GB, 1.555e12, NVLINK_3),
    "A100 PCIe": DeviceSpec(312e12, 19.5e12, 80 * GB, 1.935e12, PCIE_4),
    "V100": DeviceSpec(125e12, 15.7e12, 32 * GB, 0.9e12, NVLINK_2),  # SXM2
    "V100 16GB": DeviceSpec(125e12, 15.7e12, 16 * GB, 0.9e12, NVLINK_2),
    "L4": DeviceSpec(121e12, 30.3e12, 24 * GB, 0.3e12, PCIE_4),
    "RTX 4090": DeviceSpec(165e12, 82.6e12, 24 * GB, 1.008e12, PCIE_4),
    "TPUv3 core": DeviceSpec(61.5e12, None, 16 * GB, 0.45e12, None),
}
# By the full name that the driver reports, because variants of a chip differ. No MFU for other devices.
SPEC_BY_DRIVER_NAME = {
    "NVIDIA B200": "B200",
    "NVIDIA H200": "H200",
    "NVIDIA H100 80GB HBM3": "H100",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA A100-SXM4-40GB": "A100 40GB",
    "NVIDIA A100-SXM4-80GB": "A100",
    "NVIDIA A100-PCIE-40GB": "A100 40GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe",
    "Tesla V100-SXM2-16GB": "V100 16GB",
    "Tesla V100-SXM2-32GB": "V100",
    "NVIDIA L4": "L4",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
}

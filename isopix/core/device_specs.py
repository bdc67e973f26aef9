"""Facts of devices from their vendors' data sheets; the only table of devices."""

from typing import NamedTuple

GB = 10**9


class DeviceSpec(NamedTuple):
    """Dense peak FLOP/s, None if it is not stated, and bytes of memory."""

    bf16: float
    fp32: float | None
    memory: int
    is_gpu: bool = True


# By the name under which they are rented; without a size of memory, the larger one. The V100's 16-bit value
# is for fp16; a TPU core is half a chip.
DEVICE_SPECS = {
    "B200": DeviceSpec(2250e12, 75e12, 180 * GB),  # an eighth of a DGX B200
    "H200": DeviceSpec(989e12, 67e12, 141 * GB),
    "H100": DeviceSpec(989e12, 67e12, 80 * GB),  # SXM
    "H100 PCIe": DeviceSpec(756e12, 51e12, 80 * GB),
    "A100": DeviceSpec(312e12, 19.5e12, 80 * GB),  # SXM
    "A100 40GB": DeviceSpec(312e12, 19.5e12, 40 * GB),
    "A100 PCIe": DeviceSpec(312e12, 19.5e12, 80 * GB),
    "V100": DeviceSpec(125e12, 15.7e12, 32 * GB),  # SXM2
    "V100 16GB": DeviceSpec(125e12, 15.7e12, 16 * GB),
    "L4": DeviceSpec(121e12, 30.3e12, 24 * GB),
    "RTX 4090": DeviceSpec(165e12, 82.6e12, 24 * GB),
    "TPUv3 core": DeviceSpec(61.5e12, None, 16 * GB, is_gpu=False),
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

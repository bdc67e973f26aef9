"""Facts of devices from their vendors' data sheets; the only table of devices."""

from typing import NamedTuple


class DeviceSpec(NamedTuple):
    """Dense peak FLOP/s, None if it is not stated.

    `drivers` are the full names that the driver reports, because variants of a chip differ; only GPUs have
    some. Other devices have no MFU.
    """

    bf16: float
    fp32: float | None
    drivers: tuple[str, ...] = ()


A100 = "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB"
# By the name under which they are rented. The V100's 16-bit value is for fp16; a TPU core is half a chip.
DEVICE_SPECS = {
    "B200": DeviceSpec(2250e12, 75e12, ("NVIDIA B200",)),  # an eighth of a DGX B200
    "H200": DeviceSpec(989e12, 67e12, ("NVIDIA H200",)),
    "H100": DeviceSpec(989e12, 67e12, ("NVIDIA H100 80GB HBM3",)),  # SXM
    "H100 PCIe": DeviceSpec(756e12, 51e12, ("NVIDIA H100 PCIe",)),
    "A100": DeviceSpec(312e12, 19.5e12, A100),
    "V100": DeviceSpec(125e12, 15.7e12, ("Tesla V100-SXM2-32GB", "Tesla V100-SXM2-16GB")),  # SXM2
    "L4": DeviceSpec(121e12, 30.3e12, ("NVIDIA L4",)),
    "RTX 4090": DeviceSpec(165e12, 82.6e12, ("NVIDIA GeForce RTX 4090",)),
    "TPUv3 core": DeviceSpec(61.5e12, None),
}

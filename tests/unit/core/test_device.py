import pytest
import torch

from isopix.core import device


def test_auto_finds_something() -> None:
    assert device.pick("auto").type in {"cpu", "cuda", "mps"}


def test_a_device_that_is_not_here_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="device 'tpu' is not available here; available: auto, cpu"):
        device.pick("tpu")


def test_environment_tells_what_bitwise_resume_depends_on() -> None:
    found = device.environment(torch.device("cpu"))
    assert found["threads"] == torch.get_num_threads()
    assert found["torch"] == torch.__version__
    assert str(found["device"]).startswith("cpu (")

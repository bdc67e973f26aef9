"""A device is a name or a `torch.device` in every function that takes one."""

from pathlib import Path

import pytest
import torch

import isopix
from isopix.core.device import DeviceLike, select_device
from tests.unit.api.conftest import TINY


@pytest.mark.parametrize("device", ["cpu", "cpu:0", torch.device("cpu"), torch.device("cpu", 0), "auto"])
def test_a_device_is_selected_by_name_or_as_it_is(
    device: DeviceLike, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert select_device(device) == torch.device("cpu")


def test_a_run_is_made_and_loaded_on_a_device_of_pytorch(tmp_path: Path) -> None:
    cpu = torch.device("cpu")
    run = isopix.pretrain("igpt.digits", *TINY, out=tmp_path / "run", limit=60, device=cpu)
    model = isopix.load(run.path, device=cpu)
    assert model.sample(1).shape == (1, 3, 8, 8)
    assert isopix.sample(run.path, count=1, device=cpu).images.shape[0] == 1
    with pytest.raises(ValueError, match="device 'meta' is not available; available: auto, cpu"):
        isopix.load(run.path, device=torch.device("meta"))
    with pytest.raises(ValueError, match=r"^device is 0; it must be a valid string or an instance of device"):
        isopix.load(run.path, device=0)  # type: ignore[arg-type]

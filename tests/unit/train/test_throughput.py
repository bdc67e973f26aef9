"""The counters of energy: of processors as Linux shows them, and of a GPU by a driver that is made up."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from isopix.train import throughput as energy

CPU, GPU = torch.device("cpu"), torch.device("cuda", 1)
RANGE = 262_143_328_850  # microjoules, of a server


def zone(folder: Path, number: str, name: str, microjoules: int) -> Path:
    made = folder / f"intel-rapl:{number}"
    made.mkdir(parents=True)
    (made / "name").write_text(f"{name}\n")
    (made / "max_energy_range_uj").write_text(f"{RANGE}\n")
    (made / "energy_uj").write_text(f"{microjoules}\n")
    return made / "energy_uj"


@pytest.fixture
def powercap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    return tmp_path


def test_the_energy_of_all_processors_is_counted_without_their_parts(powercap: Path) -> None:
    first = zone(powercap, "0", "package-0", 5_000_000)
    second = zone(powercap, "1", "package-1", RANGE - 1_000_000)
    for each in (zone(powercap, "0:0", "core", 0), zone(powercap, "2", "psys", 0)):
        each.write_text("90000000")
    counter = energy.energy_counter(CPU)
    assert counter is not None
    assert counter() == 0
    first.write_text("7500000")
    assert counter() == pytest.approx(2.5)
    second.write_text("999999")  # from its largest value, one more is zero
    assert counter() == pytest.approx(2.5 + 2)
    second.write_text("3999999")
    assert counter() == pytest.approx(2.5 + 2 + 3)


def test_the_energy_of_a_gpu_is_that_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    handles, millijoules = list[str](), iter([1000, 1500, 4000])
    driver = SimpleNamespace(NVMLError=OSError, nvmlInit=lambda: None)
    driver.nvmlDeviceGetHandleByUUID = handles.append
    driver.nvmlDeviceGetTotalEnergyConsumption = lambda handle: next(millijoules)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    properties = lambda device: SimpleNamespace(uuid=f"of-{device.index}")  # noqa: E731
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    counter = energy.energy_counter(GPU)
    assert handles == ["GPU-of-1"]  # numbers of CUDA and of the driver may differ
    assert counter is not None
    start = counter()
    assert counter() - start == pytest.approx(2.5)

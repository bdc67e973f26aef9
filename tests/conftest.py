"""Every test: one thread, deterministic kernels, and a cache of its own."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from tests import typecheck

typecheck.install()  # before the package is imported

from tests.registry import restored_registry  # noqa: E402
from tests.tiny_runs import copy_of, pristine, unchecked  # noqa: E402

__all__ = ["copy_of", "pristine", "unchecked"]

os.environ["MPLBACKEND"] = "Agg"
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # convolutions of every x86 CPU round alike
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
torch.set_num_threads(1)
torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms, without loading a compiler
hypothesis.settings.register_profile(  # a busy machine is no finding
    "isopix", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("isopix")


LONG = ("smoke/test_docs.py", "smoke/test_study.py", "reliability/", "smoke/", "train/test_compile.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: [name in item.nodeid for name in LONG], reverse=True)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prepared data is never read from, or left in, the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISOPIX_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
        yield


@pytest.fixture(autouse=True)
def _uninitialized_memory(request: pytest.FixtureRequest) -> None:
    """Laws over parts find memory that nothing has written; outlines of igpt.xl would fill gigabytes."""
    torch.utils.deterministic.fill_uninitialized_memory = "laws/" in request.node.nodeid


@pytest.fixture(autouse=True)
def _own_plugins() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    with restored_registry():
        yield


@pytest.fixture
def real_data() -> Path:
    """The folder of real datasets; the test is skipped where there is none."""
    folder = os.environ.get("ISOPIX_TEST_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set ISOPIX_TEST_DATA to the folder of real data")
    return Path(folder)

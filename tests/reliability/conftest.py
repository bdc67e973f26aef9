"""One warm server of commands for all tests of a worker: it takes seconds to start."""

from collections.abc import Iterator

import pytest

from tests.reliability.commands import Server


@pytest.fixture(scope="session")
def command_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Use `working_in` a folder of your own."""
    with Server(tmp_path_factory.mktemp("commands")) as found:
        yield found

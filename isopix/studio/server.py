"""The server of the page: on this machine only, without analytics and outside requests."""

import importlib.util
import os
import socket
import threading
from collections.abc import Callable
from tempfile import TemporaryDirectory

from isopix.api.arguments import checked
from isopix.core.device import DeviceLike
from isopix.pretrained.run import DataLike
from isopix.studio.opened_run import open_runs

HOST = "127.0.0.1"
MAX_RUNS = 2


@checked
def open_studio(
    *runs: str | os.PathLike[str],
    data: DataLike | None = None,
    port: int | None = None,
    browser: bool = True,
    device: DeviceLike = "auto",
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a page on which one or two runs complete, compare and inspect images, until Ctrl-C.

    It is served at 127.0.0.1 and this port, or the next free one from 7860, and opened in a `browser`;
    `ready` is called with its URL. The images are those of `data`, or the run's own test images. Raises
    ValueError for what is not a run and if gradio is missing, OSError if the port is taken.
    """
    if not 1 <= len(runs) <= MAX_RUNS:
        raise ValueError(f"the studio shows one or two runs; got {len(runs)}")
    if importlib.util.find_spec("gradio") is None:
        raise ValueError("the studio needs gradio: pip install 'isopix[studio]'")
    if port is not None:
        _require_free(port)
    opened = open_runs(runs, data=data, device=device)
    with TemporaryDirectory(prefix="isopix-studio-") as uploads:
        _set_environment(uploads)
        from isopix.studio import gradio_page  # noqa: PLC0415  it imports gradio, which takes seconds

        page = gradio_page.build_page(opened)
        try:
            url = gradio_page.start_page(page, host=HOST, port=port, browser=browser)
            if ready:
                ready(url)
            threading.Event().wait()
        finally:
            gradio_page.stop_page(page)


def _require_free(port: int) -> None:
    """Raise OSError if another program listens at this port."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OSError(
                f"port {port}: {reason}; choose another one, or none for the next free one"
            ) from None


def _set_environment(uploads: str) -> None:
    """What gradio reads when it is imported: no analytics, and uploaded files in a folder of this call."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["GRADIO_TEMP_DIR"] = uploads
    os.environ["HF_HUB_OFFLINE"] = os.environ.get("HF_HUB_OFFLINE", "1")

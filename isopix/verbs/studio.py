"""`isopix studio`: try out runs on a page that is served on this machine only."""

import importlib.util
import logging
import os
import socket
import threading
from tempfile import TemporaryDirectory
from typing import Annotated, NoReturn

from isopix.core.choices import Range
from isopix.core.verb import verb
from isopix.verbs.options import DeviceLike, OtherImages, PathLike

HOST = "127.0.0.1"
Opened = Annotated[PathLike, "One or two run folders, or models that `isopix models` lists."]
Port = Annotated[
    Annotated[int, Range(low=1, high=65535)] | None, "Port of the page. Default: the next free one from 7860."
]
Browser = Annotated[bool, "Open the page in a browser."]

logger = logging.getLogger("isopix")


@verb(command="studio")
def open_studio(
    *runs: Opened,
    data: OtherImages = None,
    port: Port = None,
    browser: Browser = True,
    device: DeviceLike = "auto",
) -> NoReturn:
    """Serve a page on this machine on which one or two runs complete, compare and inspect images.

    Choose a test image or drop a file, paint over a part, and watch the completions; see nearest images,
    attention, and how unexpected each pixel is. Ctrl-C stops it. Needs: pip install 'isopix[studio]'.

    Example: isopix studio runs/photos
    """
    if not 1 <= len(runs) <= 2:
        raise ValueError(f"the studio shows one or two runs; got {len(runs)}")
    if importlib.util.find_spec("gradio") is None:
        raise ValueError("the studio needs gradio: pip install 'isopix[studio]'")
    if port is not None:
        _require_free(port)
    from isopix.studio.run import open_runs

    opened = open_runs(runs, data=data, device=device)
    with TemporaryDirectory(prefix="isopix-studio-") as uploads:
        # Gradio reads them when it is imported: no analytics, and uploaded files in a folder of this call.
        os.environ.update(GRADIO_ANALYTICS_ENABLED="False", GRADIO_TEMP_DIR=uploads)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from isopix.studio.page import build_page, start_page, stop_page

        page = build_page(opened)
        try:
            url = start_page(page, host=HOST, port=port, browser=browser)
            logger.info("studio: %s  (Ctrl-C stops it)", url)
            while True:
                threading.Event().wait()
        finally:
            stop_page(page)


def _require_free(port: int) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OSError(f"port {port}: {reason}; choose another, or none for the next free one") from None

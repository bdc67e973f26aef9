"""`isopix studio`: try out runs on a local page."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from isopix.cli.console import Device, OtherImages, Plugins, load_plugins, say
from isopix.studio.server import open_studio

Port = Annotated[
    int | None,
    Parameter(
        validator=validators.Number(gte=1, lte=65535),
        help="Port of the page. Default: the next free one from 7860.",
    ),
]
Browser = Annotated[bool, Parameter(help="Open the page in a browser.")]


def studio(
    *runs: Path,
    data: OtherImages = None,
    port: Port = None,
    browser: Browser = True,
    plugin: Plugins = None,
    device: Device = "auto",
) -> None:
    """Serve a page on this machine on which one or two runs complete, compare and inspect images.

    Choose a test image or drop a file, paint over a part, and watch the completions; see the nearest images
    by the features of a layer, the attention of a pixel, and how unexpected each pixel is. Ctrl-C stops it.
    Needs: pip install 'isopix[studio]'.

    Example: isopix studio runs/photos

    Parameters
    ----------
    runs
        One or two run folders, or models that `isopix models` lists.
    """
    load_plugins(plugin)
    open_studio(*runs, data=data, port=port, browser=browser, device=device, ready=_announce)


def _announce(url: str) -> None:
    say(f"studio: {url}  (Ctrl-C stops it)")

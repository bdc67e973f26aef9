"""The page: a head, the image at the left, the tabs at the right."""

import html
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from isopix.core.text import printable
from isopix.data.decode import MAX_BYTES
from isopix.studio.gradio_image_panel import build_image_panel
from isopix.studio.gradio_tabs import build_tabs
from isopix.studio.gradio_theme import studio_theme
from isopix.studio.opened_run import OpenedRun

CSS = Path(__file__).with_name("studio.css")


def build_page(runs: Sequence[OpenedRun]) -> Any:
    """Return the page of opened runs."""
    with gr.Blocks(title=f"isopix studio: {runs[0].name}", analytics_enabled=False) as page:
        gr.HTML(_head(runs), padding=False)
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                panel, connect = build_image_panel(runs)
            with gr.Column(scale=3, min_width=320):
                build_tabs({run.name: run for run in runs}, panel)
        connect()
    return page


def start_page(page: Any, *, host: str, port: int | None, browser: bool) -> str:
    """Serve the page at this port, or the next free one, and return its URL. Raises OSError if taken."""
    _, url, _ = page.queue(default_concurrency_limit=None).launch(
        server_name=host,
        server_port=port,
        inbrowser=browser,
        prevent_thread_lock=True,
        quiet=True,
        share=False,
        ssr_mode=False,
        enable_monitoring=False,
        footer_links=[],
        max_file_size=MAX_BYTES,
        theme=studio_theme(),
        css_paths=CSS,
    )
    return str(url)


def stop_page(page: Any) -> None:
    """End the server without waiting for open pages, which takes five seconds, and without their errors."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    if page.server is not None:
        page.server.force_exit = True
    page.close(verbose=False)


def _head(runs: Sequence[OpenedRun]) -> str:
    lines = "".join(f"<p><strong>{_text(run.name)}</strong>: {_text(run.label())}</p>" for run in runs)
    return f'<header class="studio-head"><h1>isopix studio</h1>{lines}</header>'


def _text(text: str) -> str:
    return html.escape(printable(text))

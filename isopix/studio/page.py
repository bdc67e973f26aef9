"""The page: a head, the image at the left, the tabs at the right, in the look of the report."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from isopix.data.decode import MAX_BYTES
from isopix.studio.panel import build_image_panel
from isopix.studio.run import OpenedRun
from isopix.studio.tabs import build_tabs
from isopix.studio.views import escaped

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
    lines = "".join(f"<p><strong>{escaped(run.name)}</strong>: {escaped(run.label())}</p>" for run in runs)
    return f'<header class="studio-head"><h1>isopix studio</h1>{lines}</header>'


SANS = ("ui-sans-serif", "system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "Liberation Sans", "sans-serif")
MONO = ("ui-monospace", "Menlo", "Consolas", "Liberation Mono", "monospace")

# Which color of studio.css each part of the page has.
PARTS = {
    "paper": "body_background_fill background_fill_primary background_fill_secondary panel_background_fill"
    " block_background_fill block_label_background_fill",
    "raised": "input_background_fill button_secondary_background_fill button_primary_text_color"
    " checkbox_label_background_fill checkbox_label_background_fill_selected",
    "ink": "body_text_color button_secondary_text_color",
    "quiet": "body_text_color_subdued block_label_text_color block_title_text_color block_info_text_color",
    "rule": "block_border_color border_color_primary input_border_color",
    "mark": "border_color_accent button_primary_background_fill checkbox_background_color_selected"
    " slider_color loader_color",
    "strong": "button_primary_background_fill_hover",
}


def studio_theme() -> Any:
    """Return the theme: fonts of the system only, so that nothing is downloaded."""
    theme = gr.themes.Base(font=list(SANS), font_mono=list(MONO), radius_size="sm")
    colors = {
        f"{part}{mode}": f"var(--{color})"
        for color, parts in PARTS.items()
        for part in parts.split()
        for mode in ("", "_dark")
    }
    return theme.set(**colors, block_shadow="none", block_shadow_dark="none")

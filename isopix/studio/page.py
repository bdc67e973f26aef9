"""The page: a head, the image at the left, the tabs at the right, in the look of the report."""

import html
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from isopix.core.text import printable
from isopix.data.decode import MAX_BYTES
from isopix.studio.panel import build_image_panel
from isopix.studio.run import OpenedRun
from isopix.studio.tabs import build_tabs

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


LIGHT = {"paper": "#fbfaf7", "raised": "#ffffff", "ink": "#1c1e22", "quiet": "#666b73", "rule": "#e3e0d9"}
LIGHT |= {"mark": "#3d6f9f", "strong": "#2f587f"}
DARK = {"paper": "#131417", "raised": "#1b1d21", "ink": "#eceae5", "quiet": "#9a9ea6", "rule": "#2b2d32"}
DARK |= {"mark": "#82b1dd", "strong": "#a5c8ea"}
SANS = ("ui-sans-serif", "system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "Liberation Sans", "sans-serif")
MONO = ("ui-monospace", "Menlo", "Consolas", "Liberation Mono", "monospace")

# Which color each part of the page has.
PARTS = {
    "body_background_fill": "paper",
    "body_text_color": "ink",
    "body_text_color_subdued": "quiet",
    "background_fill_primary": "paper",
    "background_fill_secondary": "paper",
    "block_background_fill": "paper",
    "block_label_background_fill": "paper",
    "block_label_text_color": "quiet",
    "block_title_text_color": "quiet",
    "block_info_text_color": "quiet",
    "block_border_color": "rule",
    "border_color_primary": "rule",
    "border_color_accent": "mark",
    "input_background_fill": "raised",
    "input_border_color": "rule",
    "panel_background_fill": "paper",
    "button_primary_background_fill": "mark",
    "button_primary_background_fill_hover": "strong",
    "button_primary_text_color": "raised",
    "button_secondary_background_fill": "raised",
    "button_secondary_text_color": "ink",
    "checkbox_label_background_fill": "raised",
    "checkbox_label_background_fill_selected": "raised",
    "checkbox_background_color_selected": "mark",
    "slider_color": "mark",
    "loader_color": "mark",
}


def studio_theme() -> Any:
    """Return the theme: fonts of the system only, so that nothing is downloaded."""
    theme = gr.themes.Base(font=list(SANS), font_mono=list(MONO), radius_size="sm")
    colors = {name: LIGHT[color] for name, color in PARTS.items()}
    colors |= {f"{name}_dark": DARK[color] for name, color in PARTS.items()}
    return theme.set(**colors, block_shadow="none", block_shadow_dark="none")

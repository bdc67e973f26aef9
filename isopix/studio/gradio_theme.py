"""The look of the page: that of the report, light and dark."""

from typing import Any

import gradio as gr

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

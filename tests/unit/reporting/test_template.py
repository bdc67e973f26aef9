"""Pages show text of foreign origin and can always be encoded."""

from pathlib import Path

from markupsafe import Markup

from isopix.reporting.template import render_template

HOSTILE = "lat\udce9n\x1b[2J\u202e<script>\n"


def test_a_page_can_be_encoded_and_escapes_what_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("<p>{{ text }}</p>\n<svg>{{ drawn }}</svg>")
    page = render_template("page.j2", tmp_path, text=HOSTILE, drawn=Markup("<g>{}</g>").format(HOSTILE))
    shown = "lat\\xe9n\\x1b[2J\\u202e&lt;script&gt;\n"
    assert page.encode().decode() == f"<p>{shown}</p>\n<svg><g>{shown}</g></svg>"

"""Tables of results as HTML."""

from isopix.core.text import Table


def test_values_are_escaped() -> None:
    html = Table("a <b>", ["<i>"], [["<script>"]]).html()
    assert all(each in html for each in ("a &lt;b&gt;", "&lt;i&gt;", "&lt;script&gt;"))
    assert not any(each in html for each in ("<b>", "<i>", "<script>"))

"""Text of foreign origin is displayed, and never acts."""

import csv
import io
import sys
import unicodedata
from pathlib import Path

import pytest

from isopix.core.text import (
    Table,
    command_line,
    csv_text,
    format_duration,
    printable,
    similar_paths,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\r\x85\u2028", r"two\x0alines\x0d\x85\u2028"),
        ("\u202egpj.exe\u200b", r"\u202egpj.exe\u200b"),
        ("Tür, 日本語, 👩‍🚀, <b> a\\b", "Tür, 日本語, 👩‍🚀, <b> a\\b"),
    ],
)
def test_unsafe_characters_are_escaped_and_others_kept(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_every_character_is_one_line_that_can_be_encoded_and_controls_nothing() -> None:
    directions = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for code in range(sys.maxunicode + 1):
        shown = printable(chr(code))
        assert len(f"a{shown}b".splitlines()) == 1
        assert shown.encode()
        assert all(unicodedata.category(each) not in {"Cc", "Cs", "Zl", "Zp"} for each in shown)
        assert not directions & {unicodedata.bidirectional(each) for each in shown}


def test_no_value_of_a_csv_file_is_a_formula() -> None:
    texts = ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\uff1d1", "a\n=1", 'a",=1', None]
    read = list(csv.reader(io.StringIO(csv_text([texts, [-1, -1.5]]), newline="")))
    shown = ["'=1+1", "'+1", "'-1", "'@x", r"\x09=1", r"\x0d=1", "'\uff1d1", r"a\x0a=1", 'a",=1', ""]
    assert read == [shown, ["-1", "-1.5"]]


def test_a_path_in_a_command_is_not_an_option() -> None:
    assert command_line("resume", Path("-a b"), "--devices", 2) == "isopix resume './-a b' --devices 2"


def test_durations() -> None:
    times = (0.25, 65, 4000, 2 * 86400 - 1, 1_000_000)
    expected = ["under 1 s", "1 min 5 s", "1 h 7 min", "48 h 0 min", "11.6 days"]
    assert list(map(format_duration, times)) == expected


def test_paths_next_to_a_missing_one(tmp_path: Path) -> None:
    for name in ("photos", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "photos.npz").write_text("")
    assert similar_paths(tmp_path / "phtos") == [str(tmp_path / "photos")]
    assert similar_paths(tmp_path / "photo.npz") == [str(tmp_path / "photos.npz")]
    assert similar_paths(tmp_path / "photo.npz", folders=True) == []
    assert similar_paths(tmp_path / "hidden") == similar_paths(tmp_path / "no" / "folder") == []


def test_values_of_a_table_are_escaped() -> None:
    assert Table("", ["a"], [["x|<b>"]]).markdown().endswith("| x\\|&lt;b&gt; |")
    html = Table("a <b>", ["<i>"], [["<script>"]]).html()
    assert all(each in html for each in ("a &lt;b&gt;", "&lt;i&gt;", "&lt;script&gt;"))
    assert not any(each in html for each in ("<b>", "<i>", "<script>"))

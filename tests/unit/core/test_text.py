"""Text of foreign origin is displayed, and never acts."""

import os
import sys
import unicodedata
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from isopix.core.text import (
    command_line,
    did_you_mean,
    format_duration,
    format_loss,
    mean_and_std,
    printable,
    short_repr,
    similar_paths,
    spell_duration,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (os.fsdecode(b"latin\xe9.png"), r"latin\xe9.png"),
        ("two\nlines\r\x85\u2028", r"two\x0alines\x0d\x85\u2028"),
        ("\u202egpj.exe\u200b", r"\u202egpj.exe\u200b"),
        ("\ud800", r"\ud800"),
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


class Pair(NamedTuple):
    pixels: torch.Tensor
    name: str


def test_tensors_are_shown_by_type_and_shape() -> None:
    pair = Pair(torch.zeros(2, 3, dtype=torch.uint8), "a")
    assert short_repr(pair) == "Pair(pixels=uint8 [2 3], name='a')"
    assert short_repr(torch.tensor(0.5)) == "float32 []"


@pytest.mark.parametrize(
    ("seconds", "short", "spelled"),
    [
        (0.25, "0:00", "0.25 s"),
        (65, "1:05", "1 min 5 s"),
        (4000, "1:06:40", "1 h 7 min"),
        (2 * 86400 - 1, "47:59:59", "48 h 0 min"),
        (1_000_000, "11.6 days", "11.6 days"),
    ],
)
def test_durations(seconds: float, short: str, spelled: str) -> None:
    assert (format_duration(seconds), spell_duration(seconds)) == (short, spelled)


def test_numbers_and_words_as_text() -> None:
    assert (format_loss(2.07944), format_loss(3.02949e37)) == ("2.0794", "3.029e+37")
    assert (mean_and_std([0.5, 0.7]), mean_and_std([0.5])) == ("60.0% ± 14.1%", "50.0%")
    assert command_line("probe", "my run", "a$b") == "isopix probe 'my run' 'a$b'"


def test_the_nearest_name_is_suggested_if_it_is_near() -> None:
    names = ["igpt.tiny", "igpt.s", "vit.tiny"]
    assert did_you_mean("igpt.tny", names) == "did you mean 'igpt.tiny'? "
    assert did_you_mean("cifar10", names) == ""
    assert did_you_mean("igpt.tny", names, similarity=0.99) == ""


def test_paths_next_to_a_missing_one(tmp_path: Path) -> None:
    for name in ("photos", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "photos.npz").write_text("")
    assert similar_paths(tmp_path / "phtos") == [str(tmp_path / "photos")]
    assert similar_paths(tmp_path / "photo.npz") == [str(tmp_path / "photos.npz")]
    assert similar_paths(tmp_path / "photo.npz", folders=True) == []
    assert similar_paths(tmp_path / "hidden") == similar_paths(tmp_path / "no" / "folder") == []

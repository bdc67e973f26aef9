"""`isopix data show`: numbers as text and JSON, pictures and lists."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.smoke.conftest import Run
from tests.smoke.test_bad_input import refused


@pytest.mark.usefixtures("quick_figures")
def test_pictures_lists_and_numbers_are_written(isopix: Run, workplace: Path) -> None:
    shutil.copy(workplace / "photos/cats/0.png", workplace / "photos/dogs/other.png")
    (workplace / "photos/dogs/broken.png").write_bytes(b"no picture")
    code, out, err = isopix("data", "show", "photos", "--out", "seen")
    assert (code, err) == (0, "")
    assert "photos: 2 classes" in out
    assert "all 48×40 (width × height)" in out
    assert "exact duplicates: 2 images; groups: 1\n  groups with different labels: 1" in out
    assert "unreadable: 1\n  photos/dogs/broken.png: not a JPEG, PNG" in out
    written = {
        Path(line.removeprefix("wrote ")).name for line in out.splitlines() if line.startswith("wrote")
    }
    assert written == {path.name for path in Path("seen").iterdir()}
    with Image.open("seen/contact-sheet.png") as sheet:
        assert sheet.width > 1000
    with Path("seen/duplicates.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["image"], row["class"]) for row in rows] == [
        ("photos/cats/0.png", "cats"),
        ("photos/dogs/other.png", "dogs"),
    ]
    saved = json.loads(Path("seen/data.json").read_text())
    code, out, err = isopix("data", "show", "photos", "--json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert printed.pop("written") == []
    assert printed == {name: saved[name] for name in printed}


def test_the_number_of_unreadable_files_that_are_not_listed_is_printed(isopix: Run, workplace: Path) -> None:
    for number in range(5):
        (workplace / f"photos/dogs/broken{number}.png").write_bytes(b"no picture")
    code, out, _ = isopix("data", "show", "photos")
    assert code == 0
    assert "unreadable: 5\n" in out
    assert "  and 2 more; --out FOLDER lists all\n" in out


def test_a_wrong_call_is_one_line(isopix: Run, workplace: Path) -> None:
    (workplace / "file").write_text("")
    refused(isopix("data", "show", "photos", "--out", "file"), "--out file is a file; give a folder")
    refused(isopix("data", "show", "photos", "--limit", "0"), "--limit is 0; allowed: 1 or more")
    code, _, err = isopix("data", "show", "nowhere")
    assert code == 2
    assert err.startswith("isopix: no file or folder 'nowhere' exists")

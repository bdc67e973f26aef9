"""Messages besides the results: progress, skipped files, and the next commands."""

from pathlib import Path

import pytest
from PIL import Image

from isopix.storage import log
from isopix.train import config
from tests.smoke.conftest import QUICK, Run

pytestmark = pytest.mark.usefixtures("quick_probes")
REASON = "not a JPEG, PNG, WEBP, BMP, GIF or TIFF image"


def test_the_next_commands_are_quoted_and_apply_to_the_run(isopix: Run, workplace: Path) -> None:
    code, out, _ = isopix("pretrain", "igpt.digits", "--out", "my run", *QUICK)
    assert code == 0
    assert out.endswith("next: isopix probe 'my run' ; isopix sample 'my run' ; isopix report 'my run'\n")
    words = ["--data", "photos/cats", "--out", "flat"]
    assert isopix("pretrain", "igpt.digits_bert", *words, *QUICK)[1].endswith(
        "next: isopix reconstruct flat ; isopix report flat\n"
    )


def test_one_image_is_enough_to_complete(isopix: Run, workplace: Path) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK)[0] == 0
    (workplace / "mine").mkdir()
    Image.new("RGB", (9, 9), "red").save(workplace / "mine" / "red.png")
    code, out, err = isopix("complete", "r", "--data", "mine", "-n", "1", "--json")
    assert (code, err) == (0, "")
    assert '"split": "train"' in out


def test_unreadable_files_are_reported_by_every_command(isopix: Run, workplace: Path) -> None:
    for i in range(60):  # so that one bad file is less than a hundredth
        Image.new("L", (8, 8), 4 * i).save(workplace / "photos" / "cats" / f"more{i}.png")
    (workplace / "photos" / "dogs" / "broken.png").write_bytes(b"no picture")
    message = f"skipped photos/dogs/broken.png: {REASON}\n"
    fit = ["palette", "fit", "--data", "photos", "--colors", "8", "--size", "8", "8", "--out", "p.npz"]
    assert isopix(*fit, "--json")[2] == message
    result = isopix("pretrain", "igpt.digits", "--data", "photos", "--out", "r", *QUICK)
    assert message in result[1]
    assert message in isopix("probe", "r", "--data", "photos")[2]


def test_resuming_a_finished_run_notes_no_differences(isopix: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK)[0] == 0
    real = config.runtime_environment
    monkeypatch.setattr(config, "runtime_environment", lambda device: {**real(device), "threads": 99})
    assert isopix("resume", "r")[0] == 0
    assert [each for each in log.read_log(Path("r/log.jsonl")) if each["kind"] == "note"] == []

"""Messages besides the results: skipped files, and the next commands."""

from pathlib import Path

import pytest
from PIL import Image

from isopix.storage import log
from isopix.train import config
from tests.smoke.conftest import QUICK, Run, done

pytestmark = pytest.mark.usefixtures("quick_probes")
REASON = "not a JPEG, PNG, WEBP, BMP, GIF or TIFF image"


def test_the_next_commands_are_quoted_and_apply_to_the_run(
    isopix: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = done(isopix("pretrain", "igpt.digits", "--out", "my run", *QUICK))
    assert out.endswith("next: isopix probe 'my run' ; isopix sample 'my run' ; isopix report 'my run'\n")
    out = done(isopix("pretrain", "igpt.digits_bert", "--data", "photos/cats", "--out", "flat", *QUICK))
    assert out.endswith("next: isopix reconstruct flat ; isopix report flat\n")
    real = config.runtime_environment
    monkeypatch.setattr(config, "runtime_environment", lambda device: {**real(device), "threads": 99})
    done(isopix("resume", "flat"))  # a finished run, of which no differences are noted
    assert [each for each in log.read_log(Path("flat/log.jsonl")) if each["kind"] == "note"] == []


def test_unreadable_files_are_reported_by_every_command(isopix: Run, workplace: Path) -> None:
    (workplace / "photos" / "dogs" / "broken.png").write_bytes(b"no picture")
    training = ("pretrain", "igpt.digits", "--data", "photos", "--out", "r", *QUICK)
    code, _, err = isopix(*training)
    known = "isopix: 1 of 61 images cannot be read, above the limit of 1%; first: photos/dogs/broken.png"
    assert (code, err.startswith(known), err.count("\n"), Path("r").exists()) == (2, True, 1, False)
    for i in range(60):  # so that one bad file is less than a hundredth
        Image.new("L", (8, 8), 4 * i).save(workplace / "photos" / "cats" / f"more{i}.png")
    message = f"skipped photos/dogs/broken.png: {REASON}\n"
    fit = ["palette", "fit", "--data", "photos", "--colors", "8", "--size", "8", "8", "--out", "p.npz"]
    assert isopix(*fit, "--json")[2] == message
    assert message in done(isopix(*training))
    assert message in isopix("probe", "r", "--data", "photos")[2]
    listed = Path("r/bad-files.csv").read_text().splitlines()
    assert listed == ["path,reason", f'photos/dogs/broken.png,"{REASON}"']

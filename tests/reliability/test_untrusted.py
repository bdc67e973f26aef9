"""Files of strangers: nothing in them is executed, and each that cannot be read is one line."""

import io
import os
import pickle
import shutil
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import isopix
from isopix.codecs.palette_spec import read_palette
from isopix.core.registry import load_plugin
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.data.sources.base import Source, SourceSplit, with_class_names
from isopix.recipes import registry
from isopix.runs.resume import folder_of_runs
from isopix.storage.run_folder import own_folder
from tests.tiny_runs import CPU, Copy
from tests.unit.data.refusal import refusal

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)


@dataclass
class Payload:
    """What a pickle would run."""

    canary: Path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.canary}",)


def load(path: Path) -> object:
    config = DataConfig(source=str(path), rows=8, cols=8, holdout=0.0)
    return load_dataset(config, cache=path.parent / "cache")


READERS: dict[str, Callable[[Path], object]] = {
    "set.npz": load,
    "set.parquet": load,
    "set.tar": load,
    "palette.npy": read_palette,
    "settings.yaml": lambda path: registry.resolve("igpt.tiny", file=path),
}


def npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npz(content: bytes, member: str = "x_train.npy", kind: int = stat.S_IFREG) -> bytes:
    file, info = io.BytesIO(), zipfile.ZipInfo(member)
    info.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(info, content)
    return file.getvalue()


def contents(canary: Path) -> list[bytes]:
    payload = Payload(canary)
    python = f"!!python/object/apply:os.system ['touch {canary}']".encode()
    objects = npy(np.array([payload], dtype=object))
    outside = [npz(npy(IMAGES), name) for name in ("../x_train.npy", "/etc/x_train.npy", "..")]
    links = [npz(b"/etc/passwd", kind=kind) for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR)]
    plain = [b"", b"\0" * 64, b"[" * 100_000]
    return [*plain, pickle.dumps(payload), objects, npz(objects), python, *outside, *links]


@pytest.mark.parametrize("name", READERS)
def test_nothing_is_executed_or_written_and_the_error_is_one_line(tmp_path: Path, name: str) -> None:
    for content in contents(tmp_path / "canary"):
        (tmp_path / name).write_bytes(content)
        text = ""
        try:
            READERS[name](tmp_path / name)
        except (ValueError, OSError, RuntimeError) as error:
            text = str(error)
        assert "\n" not in text, content[:40]
        assert "pickle" not in text, content[:40]
        assert {path.name for path in tmp_path.iterdir()} <= {name, "cache"}, content[:40]


WRITERS: dict[str, Callable[[Path], object]] = {
    "checkpoints": isopix.resume,
    "probes/history": isopix.resume,
    "wandb": isopix.resume,
    "samples": isopix.sample,
    "evaluations": isopix.evaluate,
    "low-data": partial(isopix.probe, labels=[1]),
    "scores": isopix.score,
    "neighbors/neighbors-1": isopix.neighbors,
    "analysis": isopix.analyze,
}


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_through_a_link_out_of_a_run(copy_of: Copy, tmp_path: Path, name: str) -> None:
    run, outside = copy_of("ar", "run"), tmp_path / "outside"
    link = run / name
    link.parent.mkdir(exist_ok=True)
    shutil.move(link, outside) if link.is_dir() else outside.mkdir()
    (outside / "step-99999999.json").touch()
    before = sorted(outside.rglob("*"))
    link.symlink_to(outside)
    assert refusal(WRITERS[name], run).startswith(f"{link} is a link to {outside}, outside of {run}; ")
    assert sorted(outside.rglob("*")) == before
    link.unlink()
    shutil.move(outside, run / "inside")
    link.symlink_to(run / "inside")
    assert own_folder(run, name) == link


def test_nor_in_a_folder_of_runs(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/folder.lock").touch()
    (tmp_path / "out/lr-0.1").symlink_to(tmp_path)
    assert "outside of" in refusal(folder_of_runs(tmp_path / "out", {}, "search").__enter__)


BYTES = os.fsdecode(b"r\xff")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("out", lambda: isopix.pretrain("igpt.digits", out=BYTES, **CPU)),
        ("out", lambda: isopix.report("run", out=Path(BYTES) / "page.html")),
        ("data", lambda: isopix.pretrain("igpt.digits", data=BYTES, out="run", **CPU)),
        ("settings", lambda: isopix.pretrain("igpt.digits", f"data.source={BYTES}", out="run", **CPU)),
        ("plugin", lambda: load_plugin(f"{BYTES}.py")),
        ("a class of dataset 'photos'", lambda: with_class_names(Source("photos", SPLITS, (), ""))),
    ],
)
def test_a_name_that_no_record_can_hold_is_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: Callable[[], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"{BYTES}.py").touch()
    assert refusal(call).startswith(f"{name} is not UTF-8: ")
    assert len(list(tmp_path.iterdir())) == 1
    Path(BYTES).mkdir()
    monkeypatch.chdir(BYTES)
    assert refusal(isopix.list_models).startswith("the current folder is not UTF-8: ")


SPLITS = {"train": SourceSplit(1, lambda start, stop: (), str, np.array([BYTES], object))}


@pytest.mark.parametrize("length", [201, 245, 250, 255, 256])
def test_a_long_name_of_out_is_refused_first_and_by_itself(tmp_path: Path, length: int) -> None:
    out = tmp_path / ("é" + "x" * (length - 2))
    for verb in (isopix.report, isopix.pretrain):
        with pytest.raises(ValueError, match=f"^out is {out.name}, a name of {length} bytes; allowed"):
            verb("igpt.digits", out=out)
    assert not any(tmp_path.iterdir())

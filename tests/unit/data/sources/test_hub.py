"""Hub names, with a stand-in for the `datasets` library."""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from isopix.data.sources.hub import HUB_DATASETS, read_hub
from tests.unit.data.refusal import refusal
from tests.unit.data.tables import encoded, table

ALTERNATIVES = (
    "give a folder of images, an image, an .npz file, OpenAI's .npy files, Parquet, tar or Arrow files"
)


@dataclass
class FakeSplit:
    """The few members of `datasets.Dataset` that the reader touches."""

    table: pa.Table
    file: Path

    @property
    def features(self) -> SimpleNamespace:
        return SimpleNamespace(arrow_schema=self.table.schema)

    @property
    def cache_files(self) -> list[dict[str, str]]:
        return [{"filename": str(self.file)}]

    def __len__(self) -> int:
        return self.table.num_rows

    def with_format(self, kind: str) -> "FakeSplit":
        assert kind == "arrow"
        return self

    def __getitem__(self, rows: slice) -> pa.Table:
        return self.table.slice(rows.start, rows.stop - rows.start)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """A hub where every dataset has 2,000 images a split; the list holds what was asked of it."""
    asked = []
    (tmp_path / "data.arrow").write_bytes(b"content")
    content = pa.concat_tables([table(10, names=["a", "b", "c"])] * 200)

    def load_dataset(repository: str, *, split: str, keep_in_memory: bool) -> FakeSplit:
        assert not keep_in_memory  # else there would be no files to hash
        asked.append((repository, split))
        return FakeSplit(content, tmp_path / "data.arrow")

    _install(monkeypatch, load_dataset)
    return asked


def _install(monkeypatch: pytest.MonkeyPatch, load_dataset: Any) -> None:
    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)


@pytest.mark.parametrize("name", HUB_DATASETS)
def test_every_name_gives_train_and_test(name: str, hub: list[tuple[str, str]]) -> None:
    source = read_hub(name)
    assert {key: split.num_images for key, split in source.splits.items()} == {"train": 2000, "test": 2000}
    assert (source.name, source.classes) == (name, ("a", "b", "c"))


def test_all_rows_come_in_order(hub: list[tuple[str, str]]) -> None:
    part = read_hub("cifar10").splits["train"]
    assert list(part.images()) == [encoded(i % 10) for i in range(2000)]
    assert part.labels is not None
    assert part.labels[:11].tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0]


def test_the_validation_images_of_imagenet_are_its_test_images(hub: list[tuple[str, str]]) -> None:
    assert read_hub("imagenet-1k").holdout == 0.04
    assert hub == [("ILSVRC/imagenet-1k", "train"), ("ILSVRC/imagenet-1k", "validation")]


def test_the_digest_follows_the_content_of_the_files(hub: list[tuple[str, str]], tmp_path: Path) -> None:
    before = read_hub("cifar10").content_hash
    (tmp_path / "data.arrow").write_bytes(b"other content")
    assert read_hub("cifar10").content_hash != before


def test_a_missing_library_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert refusal(read_hub, "cifar10", kind=RuntimeError) == (
        "dataset 'cifar10' is on the Hugging Face Hub and needs the network and "
        f"pip install 'isopix[hub]'; or {ALTERNATIVES}"
    )


def test_a_missing_network_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(repository: str, **_: object) -> None:
        raise ConnectionError("Couldn't reach the Hub\nTraceback: many lines")

    _install(monkeypatch, load_dataset)
    assert refusal(read_hub, "stl10", kind=RuntimeError) == (
        "dataset 'stl10' cannot be downloaded from the Hugging Face Hub: no network or no access "
        f"(ConnectionError: Couldn't reach the Hub); {ALTERNATIVES}, "
        "or copy a filled Hub cache and set HF_HUB_OFFLINE=1"
    )

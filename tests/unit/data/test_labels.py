"""Which values are labels, where they are found in tables, tar files and metadata, and what is not read."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isopix.data.sources.base import ReadOptions, Source, find_reader
from tests.unit.data.shards import encoded, table_of, write_arrow, write_tar

Fields = Mapping[str, list[Any]]  # the values of each column
Write = Callable[[Path, Fields], Path]

IMAGES = [encoded(i) for i in range(4)]
IDS, TWICE = [10, 11, 12, 13], [3, 1, 3, 1]
PETS = ["dog", "cat", "dog", "cow"]
PET_INDICES = [2, 0, 2, 1]
KINDS = {"_type": "ClassLabel", "names": ["hen", "ape"]}


def _columns(fields: Fields, features: Mapping[str, object] | None = None) -> pa.Table:
    whole = table_of(IMAGES, [0] * 4).drop_columns("label")
    for name, values in fields.items():
        whole = whole.append_column(name, pa.array(values))
    return whole.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features or {}}})})


def _parquet(path: Path, fields: Fields) -> Path:
    pq.write_table(_columns(fields), path / "set.parquet")
    return path / "set.parquet"


def _arrow(path: Path, fields: Fields) -> Path:
    return write_arrow(path / "set.arrow", _columns(fields), rows_per_batch=3)


def _tar(path: Path, fields: Fields) -> Path:
    rows = ({name: values[i] for name, values in fields.items()} for i in range(4))
    samples = [
        ((f"{i}.png", IMAGES[i]), (f"{i}.json", json.dumps(row).encode())) for i, row in enumerate(rows)
    ]
    return write_tar(path / "set.tar", [member for sample in samples for member in sample])


def _folder(path: Path, fields: Fields) -> Path:
    for i, image in enumerate(IMAGES):
        (path / f"{i}.png").write_bytes(image)
    rows = [[f"{i}.png" for i in range(4)], *fields.values()]
    lines = [["file_name", *fields], *zip(*rows, strict=True)]
    text = "\n".join(",".join("" if each is None else str(each) for each in line) for line in lines)
    (path / "metadata.csv").write_text(text)
    return path


def _json_lines(path: Path, fields: Fields) -> Path:
    _folder(path, fields)
    rows = [{"file_name": f"./{i}.png"} | {name: each[i] for name, each in fields.items()} for i in range(4)]
    (path / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (path / "metadata.csv").unlink()
    return path


WRITERS = {"Parquet": _parquet, "Arrow": _arrow, "tar": _tar, "CSV": _folder, "JSON lines": _json_lines}


def read(path: Path, label: str | None = None, image: str | None = None) -> Source:
    return find_reader(str(path), ReadOptions(label_column=label, image_column=image))()


def found(source: Source) -> tuple[list[int] | None, tuple[str, ...]]:
    labels = source.splits["train"].labels
    return None if labels is None else labels.tolist(), source.classes


EVERYWHERE: list[tuple[Fields, str | None, list[int] | None, tuple[str, ...]]] = [
    ({"label": TWICE}, None, TWICE, ("0", "1", "2", "3")),
    ({"label": PETS, "image_id": IDS}, None, PET_INDICES, ("cat", "cow", "dog")),
    ({"label": [2.0, 0.0, 1.0, 0.0]}, None, [2, 0, 1, 0], ("0", "1", "2")),
    ({"label": [True, False, True, True]}, None, [1, 0, 1, 1], ("False", "True")),
    ({"image_id": IDS}, None, None, ()),
    ({"label": [1, None, 0, 0]}, None, None, ()),
    ({"label": PETS, "kind": TWICE}, "kind", TWICE, ("0", "1", "2", "3")),
    ({"label": TWICE, "pet": PETS}, "pet", PET_INDICES, ("cat", "cow", "dog")),
]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(("fields", "wanted", "labels", "classes"), EVERYWHERE)
def test_every_format_reads_the_same_values_as_labels(
    tmp_path: Path, kind: str, fields: Fields, wanted: str | None, labels: list[int] | None, classes: tuple
) -> None:
    source = read(WRITERS[kind](tmp_path, fields), wanted)
    assert found(source) == (labels, classes)

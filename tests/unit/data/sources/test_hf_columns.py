"""Which columns are the image and the label."""

import json

import pyarrow as pa
import pytest

from isopix.data.sources.hf_columns import find_columns, table_split
from tests.unit.data.refusal import refusal
from tests.unit.data.tables import table


def test_class_names_come_from_the_metadata() -> None:
    columns = find_columns(table(3, names=["a", "b", "c"]).schema, "it")
    assert columns == ("img", "label", ("a", "b", "c"))


def test_the_only_integer_column_is_the_label_whatever_its_name() -> None:
    assert find_columns(table(3, image="photo", label="species").schema, "it") == ("photo", "species", ())


def test_of_several_class_labels_the_fine_one_is_taken() -> None:
    both = table(3, label="coarse_label").append_column("fine_label", pa.array([0, 1, 2]))
    assert find_columns(both.schema, "it").label == "fine_label"


def test_integers_that_nothing_calls_labels_are_not_taken() -> None:
    both = table(3, label="width").append_column("height", pa.array([1, 2, 3]))
    assert find_columns(both.schema, "it").label is None


def test_a_table_without_images_is_rejected() -> None:
    message = "it has no image column of {bytes, path}; its columns: label"
    assert refusal(find_columns, table(3).drop_columns("img").schema, "it") == message


@pytest.mark.parametrize("names", [5, "cat", [1, 2], {"a": 3}, [["a"]], True])
def test_class_names_that_are_not_strings_are_refused(names: object) -> None:
    features = {"label": {"_type": "ClassLabel", "names": names}}
    schema = table(1).schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    assert refusal(find_columns, schema, "it") == (
        "the class names of column 'label' of it are not a list of strings"
    )


@pytest.mark.parametrize("text", ["[]", "5", "{", '{"info": 3}', '{"info": {"features": 3}}', "[" * 10**5])
def test_metadata_of_another_kind_are_refused(text: str) -> None:
    schema = table(1).schema.with_metadata({"huggingface": text})
    message = refusal(find_columns, schema, "it")
    assert message == "the metadata 'huggingface' of it is not that of a dataset"


def test_an_image_column_holds_bytes() -> None:
    kind = pa.struct([("bytes", pa.int64())])
    schema = pa.schema([("img", kind), *((f"column {i}", pa.int64()) for i in range(20))])
    assert refusal(find_columns, schema, "it").endswith(
        "its columns: img, " + ", ".join(f"column {i}" for i in range(9))
    )


def test_labels_above_64_bits_are_refused() -> None:
    whole = table(2)
    labels = pa.array([0, 2**64 - 1], pa.uint64())
    columns = find_columns(whole.schema, "it")
    message = refusal(table_split, 2, lambda column, start, stop: iter([labels]), columns, str)
    assert message.startswith("column 'label' cannot be read as integers of 64 bits: ")

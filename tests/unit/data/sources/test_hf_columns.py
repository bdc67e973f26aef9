"""Which columns are the image and the label."""

import pyarrow as pa

from isopix.data.sources.hf_columns import find_columns
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

"""Read the cells of a table from the records of trials; accuracies and errors in per cent."""

from collections.abc import Callable, Mapping
from statistics import mean, stdev
from typing import Any

from isopix.plots.curves import ProbePoint, probe_points
from isopix.recipes.published import Value

Record = Mapping[str, Any]
Read = Callable[[Record], Value | None]  # None: the record has no such number


def best_layer(record: Record) -> Value:
    """The test accuracy of the layer with the highest validation accuracy; under masks, of their vote."""
    return Value(100 * _best(record)["test_accuracy"])


def refitted_layer(record: Record) -> Value:
    """The same after refitting the layer to train and validation."""
    return Value(100 * record["refit"]["test_accuracy"])


def single_mask(record: Record) -> Value:
    """The test accuracy of the best layer under a single mask, on average over the masks."""
    return Value(100 * _best(record)["ensemble"]["single_mask"])


def last_layer(record: Record) -> Value:
    """The test accuracy of the last layer."""
    return Value(100 * record["network"]["layers"][-1]["test_accuracy"])


def drop_at_last_layer(record: Record) -> Value:
    """How many points the last layer is below the best one."""
    return Value(best_layer(record).number - last_layer(record).number)


def concatenated_layers(record: Record) -> Value:
    """The test accuracy of several layers, concatenated."""
    return Value(100 * record["network"]["concat"]["score"]["test_accuracy"])


def accuracy(record: Record) -> Value:
    """The test accuracy of a fine-tuned run; under masks, of their vote."""
    return Value(100 * record["metrics"]["accuracy"])


def single_mask_accuracy(record: Record) -> Value:
    """The test accuracy of a fine-tuned run under a single mask, on average over the masks."""
    return Value(100 * record["metrics"]["ensemble"]["single_mask"])


def top5_accuracy(record: Record) -> Value | None:
    """The top-5 test accuracy of a fine-tuned run; None for five classes or fewer."""
    top5 = record["metrics"]["top5_accuracy"]
    return None if top5 is None else Value(100 * top5)


def low_data_error(method: str, labels_per_class: int) -> Read:
    """Return a reader of the test error with few labels; it finds None if that number was not tried."""

    def read(record: Record) -> Value | None:
        for each in record["results"].get(method, ()):
            if each["labels_per_class"] == labels_per_class:
                errors = [100 * error for error in each["errors"]]
                return Value(mean(errors), stdev(errors) if len(errors) > 1 else 0.0)
        return None

    return read


def low_data_accuracy(method: str, labels_per_class: int) -> Read:
    """Return a reader of the test accuracy with few labels."""
    error = low_data_error(method, labels_per_class)

    def read(record: Record) -> Value | None:
        found = error(record)
        return None if found is None else Value(100 - found.number, found.std)

    return read


# Checkpoints of figure 3, as multiples of the interval of probes in training; None is the last step.
CHECKPOINTS = {"1/16": 1, "1/8": 2, "1/4": 4, "1/2": 8, "all": None}


def loss_at(multiple: int | None) -> Read:
    """Return a reader of the validation loss in nats at a checkpoint of a log."""

    def read(record: Record) -> Value | None:
        point = _checkpoint(record, multiple)
        return None if point is None else Value(point.loss)

    return read


def accuracy_at(multiple: int | None) -> Read:
    """Return a reader of the probe accuracy at a checkpoint of a log."""

    def read(record: Record) -> Value | None:
        point = _checkpoint(record, multiple)
        return None if point is None else Value(100 * point.accuracy)

    return read


def _checkpoint(record: Record, multiple: int | None) -> ProbePoint | None:
    points = {point.step: point for point in probe_points(record["log"]) if point.step > 0}
    if not points:
        return None
    return points.get(max(points) if multiple is None else multiple * min(points))


def _best(record: Record) -> Mapping[str, Any]:
    network = record["network"]
    return network["layers"][network["best_index"]]

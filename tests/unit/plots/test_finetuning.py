"""The figure of fine-tuning shows validation and test accuracy."""

from isopix.plots.curves import plot_finetuning_accuracy


def evaluation(step: int, accuracy: float, split: str = "validation") -> dict[str, object]:
    return {"kind": "evaluation", "step": step, "split": split, "accuracy": accuracy}


def test_no_point_is_outside_the_axes() -> None:
    records = [evaluation(0, 0.1), evaluation(10, 0.6), evaluation(20, 0.2)]
    [axes] = plot_finetuning_accuracy(records, None, best=records[1]).axes
    assert axes.get_ylim()[1] > 0.6
    ring = axes.lines[1]
    assert (ring.get_xdata().tolist(), ring.get_ydata().tolist()) == ([10], [0.6])


def test_without_a_best_step_the_last_accuracy_is_labeled() -> None:
    [axes] = plot_finetuning_accuracy(
        [evaluation(0, 0.1), evaluation(10, 0.6), evaluation(20, 0.2)], None
    ).axes
    assert len(axes.lines) == 1
    assert "validation 20.0 %" in [text.get_text() for text in axes.texts]


def test_a_single_test_accuracy_has_an_axis_from_step_zero() -> None:
    [axes] = plot_finetuning_accuracy([evaluation(40, 0.5, "test")], 0.1).axes
    low, high = axes.get_xlim()
    assert low == 0
    assert high > 40

"""The chart of fine-tuning shows all that it is about."""

from isopix.plots.finetuning import accuracy_by_step


def evaluation(step: int, accuracy: float, split: str = "validation") -> dict[str, object]:
    return {"kind": "evaluation", "step": step, "split": split, "accuracy": accuracy}


def test_no_point_is_cut_off_where_the_last_is_the_lowest() -> None:
    records = [evaluation(0, 0.1), evaluation(10, 0.6), evaluation(20, 0.2)]
    [axes] = accuracy_by_step(records, None, chosen=records[1]).axes
    assert axes.get_ylim()[1] > 0.6
    ring = axes.lines[1]
    assert (ring.get_xdata().tolist(), ring.get_ydata().tolist()) == ([10], [0.6])


def test_where_nothing_was_chosen_nothing_is_ringed_and_the_last_accuracy_is_told() -> None:
    [axes] = accuracy_by_step([evaluation(0, 0.1), evaluation(10, 0.6), evaluation(20, 0.2)], None).axes
    assert len(axes.lines) == 1
    assert "validation 20.0 %" in [text.get_text() for text in axes.texts]


def test_a_test_accuracy_alone_stands_on_an_axis_from_the_first_step_on() -> None:
    [axes] = accuracy_by_step([evaluation(40, 0.5, "test")], 0.1).axes
    low, high = axes.get_xlim()
    assert low == 0
    assert high > 40

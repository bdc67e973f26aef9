import pytest

from isopix.core.formats import format_duration, format_loss, spell_duration
from isopix.display import training

RECORD = {"kind": "train", "step": 10, "images": 100, "loss_nats": 2.0, "images_per_second": 50.0}


class Said(list[str]):
    """A bar that keeps its lines."""

    live, interval = False, 10.0

    def show(self, description: str, done: int, total: int | None, text: str) -> None:
        self.append(f"{description}  {text}")

    def say(self, line: str) -> None:
        self.append(line)

    def close(self) -> None:
        self.append("closed")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    monkeypatch.setattr(training.time, "monotonic", lambda: 1000.0)
    return Said()


def test_a_line_states_utilization_and_eta(said: Said) -> None:
    """50 images/s of 1000 FLOPs at a peak of 200,000; 100 steps of 10 images are left."""
    line = training.TrainingLine(said, 110, flops=1000, peak=200_000.0)
    line.show(RECORD)
    assert said == ["step 10/110  loss 2.0000  50.0 img/s  MFU 25.0%  eta 0:20"]


def test_a_device_of_unknown_peak_states_no_utilization(said: Said) -> None:
    line = training.TrainingLine(said, 110, flops=1000, peak=None)
    line.show(RECORD)
    assert said == ["step 10/110  loss 2.0000  50.0 img/s  eta 0:20"]


def test_lines_in_quick_succession_are_skipped_except_for_the_last(said: Said) -> None:
    line = training.TrainingLine(said, 12, flops=1000, peak=None)
    for step in (10, 11, 12):
        line.show({**RECORD, "step": step, "images": step * 10})
    assert [text.split()[1] for text in said] == ["10/12", "12/12"]


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({"loss_nats": 1.25}, "validation loss 1.2500 nats"),
        (
            {"loss_nats": 1.25, "class_nats": 0.5, "accuracy": 0.75},
            "validation loss 1.2500 nats  classification loss 0.5000 nats  accuracy 75.0%",
        ),
        ({"class_nats": 0.5, "accuracy": 0.75}, "validation classification loss 0.5000 nats  accuracy 75.0%"),
    ],
)
def test_an_evaluation_shows_all_its_losses_and_accuracies(
    said: Said, metrics: dict[str, float], text: str
) -> None:
    line = training.TrainingLine(said, 12, flops=1000, peak=None)
    line.show({"kind": "evaluation", "step": 10, "split": "validation", "images": 8, **metrics})
    assert said == [f"step 10  {text}  (8 images)"]


def test_a_training_line_of_two_losses_leaves_out_their_total(said: Said) -> None:
    """It fits 80 columns."""
    line = training.TrainingLine(said, 1100, flops=1000, peak=None)
    line.show({**RECORD, "class_nats": 2.25, "total_nats": 4.25})
    assert said == ["step 10/1100  loss 2.0000  classification loss 2.2500  50.0 img/s  eta 3:38"]


def test_baselines_are_shown_with_their_images(said: Said) -> None:
    nats = {"unigram": 2.0, "PNG": 1.5}
    line = training.TrainingLine(said, 12, flops=1000, peak=None)
    line.show({"kind": "baselines", "step": 0, "held_out": "test", "images": 1800, "nats": nats})
    assert said == ["baselines on 1,800 test images: unigram 2.0000, PNG 1.5000 nats"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (65, "1:05"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (4000, "1:06:40"),
        (2 * 86400 - 1, "47:59:59"),
        (2 * 86400, "2.0 days"),
        (1_000_000, "11.6 days"),
    ],
)
def test_format_duration(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_huge_loss_has_four_digits() -> None:
    assert format_loss(2.07944) == "2.0794"
    assert format_loss(3.02949e37) == "3.029e+37"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25 s"),
        (65, "1 min 5 s"),
        (4000, "1 h 7 min"),
        (86400, "24 h 0 min"),
        (1e6, "11.6 days"),
    ],
)
def test_spell_duration(seconds: float, text: str) -> None:
    assert spell_duration(seconds) == text

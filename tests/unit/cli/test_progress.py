import pytest

from isopix.cli import progress

RECORD = {"kind": "train", "step": 10, "images": 100, "loss_nats": 2.0, "images_per_second": 50.0}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(progress, "say", lines.append)
    monkeypatch.setattr(progress.time, "monotonic", lambda: 1000.0)
    return lines


def test_a_line_states_utilization_and_eta(said: list[str]) -> None:
    """50 images/s of 1000 FLOPs at a peak of 200,000; 100 steps of 10 images are left."""
    with progress.TrainingLine(110, flops=1000, peak=200_000.0) as line:
        line.show(RECORD)
    assert said == ["step 10/110  loss 2.0000  50.0 img/s  MFU 25.0%  eta 0:20"]


def test_a_device_of_unknown_peak_states_no_utilization(said: list[str]) -> None:
    with progress.TrainingLine(110, flops=1000, peak=None) as line:
        line.show(RECORD)
    assert said == ["step 10/110  loss 2.0000  50.0 img/s  eta 0:20"]


def test_lines_in_quick_succession_are_skipped_except_for_the_last(said: list[str]) -> None:
    with progress.TrainingLine(12, flops=1000, peak=None) as line:
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
    said: list[str], metrics: dict[str, float], text: str
) -> None:
    with progress.TrainingLine(12, flops=1000, peak=None) as line:
        line.show({"kind": "evaluation", "step": 10, "split": "validation", "images": 8, **metrics})
    assert said == [f"step 10  {text}  (8 images)"]


def test_baselines_are_shown_with_their_images(said: list[str]) -> None:
    nats = {"unigram": 2.0, "PNG": 1.5}
    with progress.TrainingLine(12, flops=1000, peak=None) as line:
        line.show({"kind": "baselines", "step": 0, "held_out": "test", "images": 1800, "nats": nats})
    assert said == ["baselines on 1,800 test images: unigram 2.0000, PNG 1.5000 nats"]


def test_a_function_shows_its_progress_as_a_line_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.progress_bar("sampling") as show:
        for done in range(0, 201, 10):
            show(done, 200)
            now[0] += 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == ("sampling: 100 of 200  10.0/s  eta 0:10\nsampling: 200 of 200  10.0/s  eta 0:00\n")


def test_only_the_first_of_several_processes_shows_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.ranks, "rank", lambda: 1)
    with progress.progress_bar("features") as show:
        now[0] += 99
        show(1, 2)
    assert capsys.readouterr() == ("", "")


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
    assert progress.format_duration(seconds) == text


def test_a_huge_loss_has_four_digits() -> None:
    assert progress.format_loss(2.07944) == "2.0794"
    assert progress.format_loss(3.02949e37) == "3.029e+37"

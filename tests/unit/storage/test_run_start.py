"""Starts of runs: they delete nothing but what a killed start has left; errors name the path given."""

import pytest

from isopix.storage.atomic import exclusive_lock
from isopix.storage.run_folder import start_run
from tests.trained import create_run

OTHERS = ["checkpoints/model.pt", "samples/1.png", "log.jsonl"]


@pytest.mark.parametrize("names", [OTHERS, [*OTHERS, "lock"], ["lock"]])
def test_files_of_another_program_are_not_deleted(tmp_path, names):
    """A folder with these names alone may be what a killed start has left; its files say that it is not."""
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("own")
    with pytest.raises(ValueError, match="is not empty"), start_run(tmp_path):
        pass
    assert all((tmp_path / name).read_text() == "own" for name in names)


def test_what_a_killed_start_has_left_is_deleted(tmp_path):
    for name in ("checkpoints/.tmp-step-00000000-999999999@0000/model.safetensors", "log.jsonl", "lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("left")
    with start_run(tmp_path) as run:
        assert not any(run.checkpoints.iterdir())
        assert not run.log.exists()


def test_a_failed_start_deletes_nothing_of_a_folder_created_meanwhile(tmp_path):
    out = tmp_path / "run"

    def start() -> None:
        with start_run(out) as run:
            create_run(out).log.write_text("own")
            run.publish()

    with pytest.raises(ValueError, match="is not empty"):
        start()
    assert (out / "log.jsonl").read_text() == "own"
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("published", [True, False])
def test_a_run_appears_when_it_is_published_or_at_the_end(tmp_path, published):
    with start_run(tmp_path / "run") as run:
        assert not (tmp_path / "run").exists()
        (run.checkpoints / "step-00000000").mkdir()
        if published:
            run.publish()
            assert run.path == tmp_path / "run"
    assert (tmp_path / "run" / "checkpoints" / "step-00000000").is_dir()
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_the_lock_of_a_start_in_an_existing_folder_is_held(tmp_path):
    """A third process could lock a new file of that name."""
    with start_run(tmp_path):
        assert (tmp_path / "lock").is_file()
        with pytest.raises(ValueError, match="is in use by process"):
            exclusive_lock(tmp_path, "run folder").__enter__()


@pytest.mark.parametrize("text", ["", "process 999999999 on host here"])
def test_a_start_that_was_killed_with_a_lock_alone_begins_again(tmp_path, text):
    (tmp_path / "lock").write_text(text)
    with start_run(tmp_path) as run:
        assert run.checkpoints.is_dir()

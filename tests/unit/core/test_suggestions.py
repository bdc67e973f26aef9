"""Suggestions for misspelled names and paths."""

from pathlib import Path

from isopix.core.suggestions import did_you_mean, similar_paths


def test_the_nearest_name_is_suggested_if_it_is_near() -> None:
    names = ["igpt.tiny", "igpt.s", "vit.tiny"]
    assert did_you_mean("igpt.tny", names) == "did you mean 'igpt.tiny'? "
    assert did_you_mean("cifar10", names) == ""
    assert did_you_mean("igpt.tny", []) == ""
    assert did_you_mean("igpt.tny", names, similarity=0.99) == ""


def test_paths_next_to_a_missing_one(tmp_path: Path) -> None:
    for name in ("photos", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "photos.npz").write_text("")
    assert similar_paths(tmp_path / "phtos") == [str(tmp_path / "photos")]
    assert similar_paths(tmp_path / "photo.npz") == [str(tmp_path / "photos.npz")]
    assert similar_paths(tmp_path / "photo.npz", folders=True) == []
    assert similar_paths(tmp_path / "hidden") == []
    assert similar_paths(tmp_path / "pictures") == []  # the folders that both are in do not count
    assert similar_paths(tmp_path / "no" / "folder") == []

"""A fitted palette is kept by the images, the settings and the seed that it depends on."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.codecs import kmeans
from isopix.data.dataset import load_dataset
from isopix.recipes import registry
from isopix.runs.pretrain import fit_codec


@pytest.fixture
def fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of colors that are fitted from now on, with an empty cache."""
    fitted, fit = list[int](), kmeans.fit_palette

    def counted(images: object, num_colors: int, *, seed: int) -> object:
        fitted.append(num_colors)
        return fit(images, num_colors, seed=seed)

    monkeypatch.setattr(kmeans, "fit_palette", counted)
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path / "cache"))
    return fitted


def test_the_second_run_reads_the_codec_of_the_first(fits: list[int]) -> None:
    recipe = registry.find("igpt.digits")
    data = load_dataset(recipe.data)
    first, second = (fit_codec(recipe, data) for _ in range(2))
    assert fits == [17]
    assert torch.equal(first.colors, second.colors)
    assert first.fingerprint() == second.fingerprint()


def test_whatever_decides_the_palette_is_part_of_its_name(fits: list[int]) -> None:
    recipe = registry.find("igpt.digits")
    data = load_dataset(recipe.data)
    fit_codec(recipe, data)
    fit_codec(recipe.updated(seed=1), data)
    fit_codec(recipe.updated(codec=replace(recipe.model.codec, num_colors=16)), data)
    fit_codec(recipe, load_dataset(replace(recipe.data, limit=100)))
    fit_codec(recipe, load_dataset(replace(recipe.data, seed=1)))
    assert fits == [17, 17, 16, 17, 17]


@pytest.mark.parametrize("damage", [b"", b"{}", None, "one bit"])
def test_a_file_that_cannot_be_read_is_written_again(
    fits: list[int], tmp_path: Path, damage: bytes | str | None
) -> None:
    recipe = registry.find("igpt.digits")
    data = load_dataset(recipe.data)
    right = fit_codec(recipe, data)
    [path] = (tmp_path / "cache/codecs").glob("*/codec.safetensors")
    data_bytes = path.read_bytes()
    flipped = data_bytes[:-2] + bytes([data_bytes[-2] ^ 1]) + data_bytes[-1:]
    path.write_bytes({None: data_bytes[:-1], "one bit": flipped}.get(damage, damage))
    assert [fit_codec(recipe, data).fingerprint() for _ in range(2)] == [right.fingerprint()] * 2
    assert fits == [17, 17]

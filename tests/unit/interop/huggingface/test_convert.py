"""Hugging Face's folders in and out, without their code: nothing is lost, nothing half written."""

import errno
from pathlib import Path

import pytest
import torch

from isopix.interop.huggingface import convert as huggingface
from isopix.interop.huggingface.convert import read, unshifted, write
from isopix.interop.name_tables import HUGGING_FACE, rows
from isopix.model.masking import sum_components
from tests.unit.data.refusal import refusal
from tests.unit.interop import models
from tests.unit.interop.models import change_json, change_weights, folder, load_file, network, revived

HEAD, FC = "lm_head.weight", "transformer.h.0.mlp.c_fc"


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize(
    "words",
    [
        [],
        [
            "block.heads=4",
            "width=24",
            "mlp.expansion=2",
            "mlp.activation=gelu",
            "block.norm.epsilon=1e-6",
        ],
        ["depth=1", "data.rows=4", "data.cols=9", "codec.colours=5"],
    ],
    ids=["plain", "every setting", "not square"],
)
def test_ours_to_theirs_to_ours_is_the_identity(tmp_path: Path, words: list[str]) -> None:
    net = network(*words)
    again = revived(read(folder(tmp_path / "a", net)))
    assert again.tensors().keys() == net.tensors().keys()
    assert all(torch.equal(again.tensors()[name], tensor) for name, tensor in net.tensors().items())
    assert huggingface.config(again) == huggingface.config(net)
    assert again.codec.fingerprint() == net.codec.fingerprint()
    assert again.codec.grid == net.codec.grid


def test_theirs_to_ours_to_theirs_is_the_same_folder(tmp_path: Path) -> None:
    first = folder(tmp_path / "a")
    second = folder(tmp_path / "b", revived(read(first)))
    assert files(first) == files(second)


def test_any_palette_is_kept_to_the_step_of_our_colours(tmp_path: Path) -> None:
    clusters = torch.rand(models.COLOURS, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    theirs = folder(tmp_path / "a")
    change_json(theirs / "preprocessor_config.json", clusters=clusters.tolist())
    net = revived(read(theirs))
    written = torch.tensor(huggingface.processor(net)["clusters"], dtype=torch.float64)
    assert (written - clusters).abs().max() <= 1 / 65536 / 127.5
    assert revived(read(folder(tmp_path / "b", net))).codec.fingerprint() == net.codec.fingerprint()


def test_every_tensor_is_accounted_for(source: Path) -> None:
    def add_masks(tensors: models.Tensors) -> None:
        tensors["transformer.h.1.attn.bias"] = torch.ones(1, 1, 48, 48, dtype=torch.uint8).tril()
        tensors["transformer.h.1.attn.masked_bias"] = torch.tensor(-1e4)

    change_weights(source, add_masks)
    imported = read(source)
    accounts = {account.theirs: account for account in imported.accounts}
    assert accounts.keys() == load_file(source / "model.safetensors").keys()
    assert all(bool(account.ours) != bool(account.skipped) for account in accounts.values())
    assert {name for account in accounts.values() for name in account.ours} == imported.tensors.keys()
    assert "mask" in accounts["transformer.h.1.attn.masked_bias"].skipped
    assert "bias" in accounts[f"{FC}.bias"].skipped


def test_names_without_the_prefix_are_read_and_accounted_for_as_they_are(source: Path) -> None:
    plain = read(source)

    def strip(tensors: models.Tensors) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)

    change_weights(source, strip)
    imported = read(source)
    assert all(torch.equal(imported.tensors[name], tensor) for name, tensor in plain.tensors.items())
    assert {account.theirs for account in imported.accounts} == load_file(source / "model.safetensors").keys()


def test_a_file_without_biases_is_one_whose_biases_are_zero(source: Path, tmp_path: Path) -> None:
    change_weights(source, lambda tensors: [tensors.pop(name) for name in list(tensors) if "bias" in name])
    assert read(source).tensors.keys() == read(folder(tmp_path / "b")).tensors.keys()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floating_point_weights_become_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    source = folder(tmp_path / "a", network().to(dtype))
    stored = load_file(source / "model.safetensors")[HEAD]
    head = read(source).tensors["head.project.weight"]
    assert stored.dtype == dtype
    assert head.dtype == torch.float32
    assert torch.equal(head, stored.float())


OTHERS = {
    "masked": (["name=igpt.digits_bert"], "masked network"),
    "layer norms": (["block.norm.kind=layer_norm"], "tensor 'backbone.blocks.0.norm1.bias' has no place"),
    "biases": (["block.attention_bias=true"], "tensor 'backbone.blocks.0.attention.out.bias' has no place"),
}


@pytest.mark.parametrize(("words", "message"), OTHERS.values(), ids=list(OTHERS))
def test_networks_that_theirs_cannot_be_are_refused_by_name(
    tmp_path: Path, words: list[str], message: str
) -> None:
    masked = words[0].startswith("name=")
    net = network(name="igpt.digits_bert") if masked else network(*words)
    assert message in refusal(lambda: write(tmp_path / "a", net, card=""))
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_all_that_is_written(tmp_path: Path) -> None:
    names = {"README.md", "config.json", "model.safetensors", "preprocessor_config.json"}
    assert set(files(folder(tmp_path / "new" / "a"))) == names
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "a"]
    assert (tmp_path / "new" / "a" / "README.md").read_text() == "# A card\n"


def test_an_empty_folder_is_filled_and_any_other_refused(tmp_path: Path) -> None:
    folder(tmp_path)
    before = files(tmp_path)
    assert "is there already" in refusal(folder, tmp_path)
    assert "is there already" in refusal(folder, tmp_path / "README.md")
    assert files(tmp_path) == before


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_up(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface.disk, "write", fill_up)
    with pytest.raises(RuntimeError, match="no space left on device"):
        folder(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_every_row_of_the_table_is_read_and_written_back() -> None:
    net = network()
    ours, theirs = net.tensors(), huggingface.weights(net)
    for row in rows(HUGGING_FACE, 2):
        back = row.read(tuple(theirs[name] for name in row.theirs))
        assert all(torch.equal(ours[name], tensor) for name, tensor in zip(row.ours, back, strict=True))


def test_the_unshifted_network_shares_its_weights_and_lacks_the_shift() -> None:
    net = network()
    images = net.codec.decode(models.codes(net)[..., None])
    inputs = net.inputs_of(images)
    plain = unshifted(net)
    assert {id(p) for p in plain.parameters()} == {id(p) for p in net.parameters()} - {
        id(net.backbone.masking.start)
    }
    assert torch.equal(
        plain.backbone.embed(inputs), net.backbone.positions(sum_components(net.backbone.stem(inputs)))
    )


def test_a_masked_network_has_no_shift_to_leave_out() -> None:
    assert "not shifted" in refusal(unshifted, network(name="igpt.digits_bert"))

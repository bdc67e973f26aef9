"""Hugging Face's folders in and out, without their code: nothing is lost, nothing half written."""

import errno
from pathlib import Path

import pytest
import torch

from isopix.interop.huggingface import convert as huggingface
from isopix.interop.huggingface.convert import export_imagegpt, read_imagegpt
from isopix.interop.name_tables import HUGGING_FACE, expand_layers
from isopix.model.masking import sum_components
from isopix.model.network import without_start_token
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
            "block.mlp.expansion=2",
            "block.mlp.activation=gelu",
            "block.norm.epsilon=1e-6",
        ],
        ["depth=1", "data.rows=4", "data.cols=9", "codec.num_colors=5"],
    ],
    ids=["plain", "every setting", "not square"],
)
def test_export_then_import_is_the_identity(tmp_path: Path, words: list[str]) -> None:
    net = network(*words)
    again = revived(read_imagegpt(folder(tmp_path / "a", net)))
    assert again.tensors().keys() == net.tensors().keys()
    assert all(torch.equal(again.tensors()[name], tensor) for name, tensor in net.tensors().items())
    assert huggingface.exported_config(again) == huggingface.exported_config(net)
    assert again.codec.fingerprint() == net.codec.fingerprint()
    assert again.codec.grid == net.codec.grid


def test_import_then_export_is_the_same_folder(tmp_path: Path) -> None:
    first = folder(tmp_path / "a")
    second = folder(tmp_path / "b", revived(read_imagegpt(first)))
    assert files(first) == files(second)


def test_any_palette_is_kept_to_the_resolution_of_the_codec(tmp_path: Path) -> None:
    clusters = torch.rand(models.COLORS, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    theirs = folder(tmp_path / "a")
    change_json(theirs / "preprocessor_config.json", clusters=clusters.tolist())
    net = revived(read_imagegpt(theirs))
    written = torch.tensor(huggingface.processor_config(net)["clusters"], dtype=torch.float64)
    assert (written - clusters).abs().max() <= 1 / 131072 / 127.5
    assert revived(read_imagegpt(folder(tmp_path / "b", net))).codec.fingerprint() == net.codec.fingerprint()


def test_every_tensor_is_reported(source: Path) -> None:
    def add_masks(tensors: models.Tensors) -> None:
        tensors["transformer.h.1.attn.bias"] = torch.ones(1, 1, 48, 48, dtype=torch.uint8).tril()
        tensors["transformer.h.1.attn.masked_bias"] = torch.tensor(-1e4)

    change_weights(source, add_masks)
    imported = read_imagegpt(source)
    tensor_reports = {report.source: report for report in imported.tensor_reports}
    assert tensor_reports.keys() == load_file(source / "model.safetensors").keys()
    assert all(bool(report.target) != bool(report.skipped) for report in tensor_reports.values())
    assert {name for report in tensor_reports.values() for name in report.target} == imported.tensors.keys()
    assert "mask" in tensor_reports["transformer.h.1.attn.masked_bias"].skipped
    assert "bias" in tensor_reports[f"{FC}.bias"].skipped


def test_names_without_the_prefix_are_read_and_reported(source: Path) -> None:
    plain = read_imagegpt(source)

    def strip(tensors: models.Tensors) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)

    change_weights(source, strip)
    imported = read_imagegpt(source)
    assert all(torch.equal(imported.tensors[name], tensor) for name, tensor in plain.tensors.items())
    assert {report.source for report in imported.tensor_reports} == load_file(
        source / "model.safetensors"
    ).keys()


def test_a_file_without_biases_is_one_whose_biases_are_zero(source: Path, tmp_path: Path) -> None:
    change_weights(source, lambda tensors: [tensors.pop(name) for name in list(tensors) if "bias" in name])
    assert read_imagegpt(source).tensors.keys() == read_imagegpt(folder(tmp_path / "b")).tensors.keys()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floating_point_weights_become_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    source = folder(tmp_path / "a", network().to(dtype))
    stored = load_file(source / "model.safetensors")[HEAD]
    head = read_imagegpt(source).tensors["head.project.weight"]
    assert stored.dtype == dtype
    assert head.dtype == torch.float32
    assert torch.equal(head, stored.float())


OTHERS = {
    "masked": (["name=igpt.digits_bert"], "masked model"),
    "layer norms": (["block.norm.kind=layer_norm"], "tensor 'backbone.blocks.0.norm1.bias' does not exist"),
    "biases": (["block.attention_bias=true"], "tensor 'backbone.blocks.0.attention.out.bias' does not exist"),
}


@pytest.mark.parametrize(("words", "message"), OTHERS.values(), ids=list(OTHERS))
def test_networks_that_imagegpt_cannot_represent_are_refused_by_name(
    tmp_path: Path, words: list[str], message: str
) -> None:
    masked = words[0].startswith("name=")
    net = network(name="igpt.digits_bert") if masked else network(*words)
    assert message in refusal(lambda: export_imagegpt(net).write(tmp_path / "a", card=""))
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_all_that_is_written(tmp_path: Path) -> None:
    names = {"README.md", "config.json", "model.safetensors", "preprocessor_config.json"}
    assert set(files(folder(tmp_path / "new" / "a"))) == names
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "a"]
    assert (tmp_path / "new" / "a" / "README.md").read_text() == "# A card\n"


def test_an_empty_folder_is_filled_and_any_other_refused(tmp_path: Path) -> None:
    folder(tmp_path)
    before = files(tmp_path)
    assert "exists already" in refusal(folder, tmp_path)
    assert "exists already" in refusal(folder, tmp_path / "README.md")
    assert files(tmp_path) == before


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_up(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface.atomic, "write_bytes", fill_up)
    with pytest.raises(RuntimeError, match="no space left on device"):
        folder(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_every_mapping_is_inverted_by_its_export() -> None:
    net = network()
    ours, theirs = net.tensors(), huggingface.exported_state_dict(net)
    for row in expand_layers(HUGGING_FACE, 2):
        back = row.to_target(tuple(theirs[name] for name in row.source))
        assert all(torch.equal(ours[name], tensor) for name, tensor in zip(row.target, back, strict=True))


def test_without_start_token_shares_weights_and_does_not_shift() -> None:
    net = network()
    images = net.codec.decode(models.codes(net)[..., None])
    plain = without_start_token(net)
    assert {id(p) for p in plain.parameters()} == {id(p) for p in net.parameters()} - {
        id(net.backbone.masking.start),
    }
    inputs = net.inputs_of(images)
    embedded = net.backbone.positions(sum_components(net.backbone.stem(inputs)))
    assert torch.equal(plain.backbone.embed(inputs), embedded)


def test_a_masked_network_has_no_start_token_to_omit() -> None:
    assert "only an autoregressive one has" in refusal(without_start_token, network(name="igpt.digits_bert"))

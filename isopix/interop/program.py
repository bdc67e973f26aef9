"""Programs: a network from uint8 images to features or class logits, for torch.export or ONNX, checked."""

import copy
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isopix.core.types import Images
from isopix.finetuning.evaluate import predict_logits
from isopix.model.positions import Pool, pool_tokens
from isopix.probing.features import extract_features
from isopix.runs.load import LoadedRun
from isopix.storage.atomic import temporary_folder

TOLERANCE = 1e-4  # of the largest output
CHECKED = 10  # images


class Program(nn.Module):
    """uint8 images [B 3 H W] to the pooled features [B D] of a layer, or for None to class logits [B C]."""

    def __init__(self, loaded: LoadedRun, layer: int | None, pool: Pool):
        super().__init__()
        self.network = loaded.network if layer is None else loaded.network.truncated(layer)
        self.classifier, self.pool = loaded.finetuned() if layer is None else None, pool

    def forward(self, images: Images) -> Float[Tensor, "B _"]:
        inputs, backbone = self.network.inputs_of(images), self.network.backbone
        if self.classifier is not None:
            return self.classifier.predict(inputs)
        [tokens] = backbone.forward_intermediates([backbone.depth], inputs)
        return pool_tokens(tokens, self.pool, backbone.grid, backbone.num_prefix_tokens)


def write_program(loaded: LoadedRun, path: Path, *, layer: int | None, pool: Pool) -> float:
    """Write the features of a layer, or for None the class logits, as ONNX (.onnx) or torch.export (.pt2).

    The number of images is dynamic. Returns the largest difference from the model on random images. Raises
    RuntimeError, and writes nothing, above TOLERANCE times the largest output.
    """
    codec, draw = loaded.network.codec, torch.Generator().manual_seed(0)
    codec.build_table()
    images = torch.randint(256, (CHECKED, 3, *codec.image_size), generator=draw, dtype=torch.uint8)
    program = copy.deepcopy(Program(loaded, layer, pool)).cpu().eval()
    if layer is None:
        expected = predict_logits(loaded.finetuned(), images, None, precision="fp32")
    else:
        expected = extract_features(loaded.network, images, pool=pool)[layer]
    write = _write_onnx if path.suffix == ".onnx" else _write_torch
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path, str(path)) as folder, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporters about themselves
        batch = ({0: torch.export.Dim("batch")},)
        exported = torch.export.export(program, (images[:2],), dynamic_shapes=batch, strict=True)
        found = write(exported, images, folder / path.name)
        error, largest = float((found - expected).abs().max()), float(expected.abs().max())
        if not error <= TOLERANCE * largest:
            limit = f"allowed: {TOLERANCE * largest:.2g}"
            raise RuntimeError(f"{path} differs from the model by up to {error:.2g} ({limit}); not written")
        for file in folder.iterdir():  # of large models also the weights
            file.rename(path.with_name(file.name))
    return error


def _write_torch(exported: torch.export.ExportedProgram, images: Images, file: Path) -> Tensor:
    torch.export.save(exported, file)
    found: Tensor = torch.export.load(file).module()(images)
    return found


def _write_onnx(exported: torch.export.ExportedProgram, images: Images, file: Path) -> Tensor:
    try:
        import onnxruntime  # noqa: PLC0415  # the optional extra `onnx`
        import onnxscript  # noqa: F401, PLC0415
    except ImportError:
        raise RuntimeError("ONNX requires pip install -e '.[onnx]'") from None
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it misses torchvision
    names: dict[str, Any] = {"input_names": ["images"], "output_names": ["outputs"]}
    program = torch.onnx.export(exported, (), verbose=False, **names)
    assert program is not None, "the exporter returns programs"
    program.save(file)
    return torch.from_numpy(onnxruntime.InferenceSession(str(file)).run(None, {"images": images.numpy()})[0])

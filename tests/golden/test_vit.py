"""Our Vision Transformers against others: Hugging Face's ViT and ViTMAE, and timm's."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import isopix
from isopix.core.types import Images
from isopix.data.dataset import DataConfig, load_dataset
from isopix.finetuning.evaluate import predict_logits
from isopix.interop.imported_model import ImportedModel
from isopix.interop.vit.huggingface import read_huggingface_vit, read_mae
from isopix.interop.vit.timm import read_timm
from isopix.model.network import Network
from isopix.runs.load import load_finetuned

transformers = pytest.importorskip("transformers", reason="the reference is in isopix[bench]")
modeling_vit_mae = pytest.importorskip("transformers.models.vit_mae.modeling_vit_mae")

# Their loaders leave files open to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
VARIANTS = {
    "plain": {},
    "tanh, no query bias": {"hidden_act": "gelu_pytorch_tanh", "qkv_bias": False},
    "other norm, wide MLP": {"layer_norm_eps": 1e-3, "intermediate_size": 128, "hidden_act": "quick_gelu"},
}
TOLERANCE = 1e-5


def randomized(theirs: nn.Module, deviation: float = 0.15) -> nn.Module:
    """Every weight but MAE's fixed positions drawn anew, so that each of them matters."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=draw) * deviation)
    return theirs.eval()


def saved(theirs: nn.Module, folder: Path, **processor: object) -> Path:
    """Their model and their image processor, as they save themselves."""
    theirs.save_pretrained(folder)
    settings = {"size": {"height": 32, "width": 32}, **processor}
    transformers.ViTImageProcessorPil(**settings).save_pretrained(folder)
    return folder


def images(count: int = 3) -> Images:
    draw = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=draw)


def pixel_values(folder: Path, pixels: Images) -> Tensor:
    """What their image processor gives their model."""
    processor = transformers.ViTImageProcessorPil.from_pretrained(folder)
    return processor(list(pixels.permute(0, 2, 3, 1).numpy()), return_tensors="pt").pixel_values


def own_states(imported: ImportedModel, pixels: Images, mask: Tensor | None = None) -> list[Tensor]:
    network = imported.network().eval()
    with torch.no_grad():
        states = list(network.backbone.hidden_states(network.inputs_of(pixels), mask))
        return [*states, network.backbone.norm(states[-1])]


def assert_equal_states(own: list[Tensor], theirs: list[Tensor]) -> None:
    assert len(own) == len(theirs)
    for ours, reference in zip(own, theirs, strict=True):
        assert (ours - reference).abs().max() <= TOLERANCE * reference.abs().max()


def their_states(theirs: nn.Module, values: Tensor, **inputs: Tensor) -> list[Tensor]:
    with torch.no_grad():
        output = theirs(pixel_values=values, output_hidden_states=True, **inputs)
    return [*output.hidden_states, output.last_hidden_state]


@pytest.mark.parametrize("statistics", [{}, IMAGENET], ids=["half", "imagenet"])
@pytest.mark.parametrize("settings", VARIANTS.values(), ids=list(VARIANTS))
def test_hidden_states_of_a_vit(
    settings: dict[str, object], statistics: dict[str, object], tmp_path: Path
) -> None:
    theirs = randomized(transformers.ViTModel(transformers.ViTConfig(**(SIZES | settings))))
    folder = saved(theirs, tmp_path / "theirs", **statistics)
    imported = read_huggingface_vit(folder)
    assert_equal_states(own_states(imported, images()), their_states(theirs, pixel_values(folder, images())))
    assert {each.skipped for each in imported.tensor_reports} == {"", "pooler"}


def test_hidden_states_of_mae_under_a_mask(tmp_path: Path) -> None:
    config = transformers.ViTMAEConfig(
        **SIZES, decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2
    )
    theirs = randomized(transformers.ViTMAEForPreTraining(config))
    table = modeling_vit_mae.build_2d_sinusoidal_position_embedding(4, 4, 32, cls_token=True)
    theirs.vit.embeddings.position_embeddings.data[0] = table.roll(16, 1)  # MAE has columns before rows
    folder = saved(theirs, tmp_path / "theirs", **IMAGENET)
    imported = read_mae(folder)
    assert imported.recipe.model.positions.kind == "sincos"
    mask = torch.zeros(3, 16, 1, dtype=torch.bool)
    for image in range(3):
        mask[image, torch.randperm(16, generator=torch.Generator().manual_seed(image))[:12]] = True
    noise = mask[..., 0].float() + torch.arange(16) / 1000  # visible positions first, in raster order
    reference = their_states(theirs.vit, pixel_values(folder, images()), noise=noise)
    kept = (~mask[..., 0]).nonzero()[:, 1].view(3, 4)
    for ours, their in zip(own_states(imported, images(), mask), reference, strict=True):
        visible = torch.cat([ours[:, :1], ours[:, 1:].gather(1, kept[..., None].expand(-1, -1, 32))], 1)
        assert (visible - their).abs().max() <= TOLERANCE * their.abs().max()
    own = own_states(imported, images())
    theirs.config.mask_ratio = theirs.vit.config.mask_ratio = theirs.vit.embeddings.config.mask_ratio = 0.0
    order = torch.arange(16).expand(3, 16) / 16
    assert_equal_states(own, their_states(theirs.vit, pixel_values(folder, images()), noise=order))


def test_positions_that_are_not_mae_s_are_learned(tmp_path: Path) -> None:
    theirs = transformers.ViTMAEModel(transformers.ViTMAEConfig(**SIZES))
    theirs.embeddings.position_embeddings.data.normal_()
    assert read_mae(saved(theirs, tmp_path / "a", **IMAGENET)).recipe.model.positions.kind == "learned"


@pytest.fixture
def classifier(tmp_path: Path) -> tuple[nn.Module, Path]:
    labels = dict(enumerate("abcde"))
    config = transformers.ViTConfig(
        **SIZES, id2label=labels, label2id={name: i for i, name in labels.items()}
    )
    theirs = randomized(transformers.ViTForImageClassification(config))
    return theirs, saved(theirs, tmp_path / "theirs", **IMAGENET)


def own_logits(run: Path, pixels: Images) -> Tensor:
    tuned = load_finetuned(run, device=torch.device("cpu"))
    assert tuned.classes == ("a", "b", "c", "d", "e")
    return predict_logits(tuned.model, pixels, None, precision="fp32")


def test_logits_of_a_classifier_and_of_its_export(classifier: tuple[nn.Module, Path], tmp_path: Path) -> None:
    theirs, folder = classifier
    values = pixel_values(folder, images())
    with torch.no_grad():
        reference = theirs(values).logits
    isopix.convert.huggingface_vit(folder, tmp_path / "run")
    assert (
        own_logits(tmp_path / "run", images()) - reference
    ).abs().max() <= TOLERANCE * reference.abs().max()
    found = isopix.convert.to_huggingface(tmp_path / "run", tmp_path / "exported")
    assert (found.model_class, dict(found.skipped)) == ("ViTForImageClassification", {})
    again = transformers.ViTForImageClassification.from_pretrained(tmp_path / "exported").eval()
    assert again.config.id2label == theirs.config.id2label
    assert torch.equal(pixel_values(tmp_path / "exported", images()), values)
    with torch.no_grad():
        assert (again(values).logits - reference).abs().max() <= TOLERANCE * reference.abs().max()
    isopix.convert.huggingface_vit(tmp_path / "exported", tmp_path / "second")
    assert torch.equal(own_logits(tmp_path / "second", images()), own_logits(tmp_path / "run", images()))


def test_a_network_of_ours_is_exported(tmp_path: Path) -> None:
    """With a mask token and a head of codes, which ViTModel does not have."""
    run = isopix.pretrain(
        "vit.tiny",
        data="digits",
        out=tmp_path / "run",
        overrides=[
            "rows=16",
            "cols=16",
            "patch_size=4",
            "steps=2",
            "batch_size=4",
            "depth=2",
            "crop_fraction=0.8",
        ],
    )
    found = isopix.convert.to_huggingface(run, tmp_path / "exported")
    assert dict(found.skipped) == {"head of codes": 1, "mask token": 1}
    model = isopix.load(run, device="cpu")
    theirs = transformers.ViTModel.from_pretrained(tmp_path / "exported", add_pooling_layer=False).eval()
    pixels = images()[..., :16, :16]
    values = (pixels / 127.5 - 1).float()
    network: Network = model.network
    with torch.no_grad():
        own = list(network.backbone.hidden_states(network.inputs_of(pixels)))
        assert_equal_states([*own, network.backbone.norm(own[-1])], their_states(theirs, values))
    assert isopix.convert.huggingface_vit(tmp_path / "exported", tmp_path / "second").path.is_dir()
    data = isopix.load(tmp_path / "second", device="cpu").loaded.recipe.data
    assert (data.crop, data.crop_fraction) == ("center", 0.8)


class PlainBlock(nn.Module):
    """A block of timm's VisionTransformer, by its names."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, count, width = x.shape
        parts = self.attn["qkv"](self.norm1(x)).reshape(batch, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).double()
        weights = (query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(-1)
        x = x + self.attn["proj"]((weights @ value).transpose(1, 2).reshape(batch, count, width).float())
        return x + self.mlp["fc2"](nn.functional.gelu(self.mlp["fc1"](self.norm2(x))))


class PlainViT(nn.Module):
    """timm's VisionTransformer, by its names, in plain PyTorch."""

    def __init__(self, width: int = 24, heads: int = 3, depth: int = 2, classes: int = 4):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 17, width))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, 8, 8)})
        self.blocks = nn.ModuleList([PlainBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def states(self, x: Tensor) -> Iterator[Tensor]:
        patches = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), patches], 1) + self.pos_embed
        yield x
        for block in self.blocks:
            x = block(x)
            yield x
        yield self.norm(x)


TIMM = {
    "architecture": "vit_tiny_patch8_32",
    "num_classes": 4,
    "global_pool": "token",
    "pretrained_cfg": {
        "input_size": [3, 32, 32],
        "interpolation": "bicubic",
        "crop_pct": 0.9,
        "crop_mode": "center",
        "mean": [0.4, 0.5, 0.6],
        "std": [0.2, 0.3, 0.4],
    },
}


def test_a_state_dict_with_the_names_of_timm(tmp_path: Path) -> None:
    theirs = randomized(PlainViT())
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(TIMM))
    imported = read_timm(tmp_path)
    data = imported.recipe.data
    assert (data.crop, data.crop_fraction, data.resample) == ("center", 0.9, "bicubic")
    images_cfg = TIMM["pretrained_cfg"]
    assert isinstance(images_cfg, dict)
    mean, std = (torch.tensor(images_cfg[name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        reference = list(theirs.states((images() / 255 - mean) / std))
        assert_equal_states(own_states(imported, images()), reference)
        logits = theirs.head(reference[-1][:, 0])
    isopix.convert.timm(tmp_path, tmp_path / "run")
    tuned = load_finetuned(tmp_path / "run", device=torch.device("cpu"))
    own = predict_logits(tuned.model, images(), None, precision="fp32")
    assert (own - logits).abs().max() <= TOLERANCE * logits.abs().max()
    assert tuned.classes == ("0", "1", "2", "3")


def test_timm_itself(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm", reason="timm is not required")
    hub = pytest.importorskip("timm.models._hub")
    sizes = {"depth": 2, "embed_dim": 24, "num_heads": 3, "num_classes": 4, "img_size": 32, "patch_size": 8}
    theirs = randomized(timm.create_model("vit_tiny_patch16_224", **sizes))
    hub.save_for_hf(theirs, tmp_path, model_args=sizes)
    isopix.convert.timm(tmp_path, tmp_path / "run")
    tuned = load_finetuned(tmp_path / "run", device=torch.device("cpu"))
    values = images() / 127.5 - 1
    with torch.no_grad():
        logits, (states, last) = theirs(values), _timm_states(theirs, values)
    network = tuned.loaded.network
    own = list(network.backbone.hidden_states(network.inputs_of(images())))
    assert_equal_states([*own[1:], network.backbone.norm(own[-1])], [*states, last])
    found = predict_logits(tuned.model, images(), None, precision="fp32")
    assert (found - logits).abs().max() <= TOLERANCE * logits.abs().max()


def _timm_states(theirs: nn.Module, values: Tensor) -> tuple[list[Tensor], Tensor]:
    last, states = theirs.forward_intermediates(values, return_prefix_tokens=True, output_fmt="NLC")
    return [torch.cat([prefix, patches], 1) for patches, prefix in states], last


@pytest.mark.parametrize("name", ["ViTImageProcessorPil", "ImageGPTImageProcessorPil"])
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_squashed_pixels_are_those_of_the_image_processors(name: str, suffix: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    shapes = [(90, 70), (300, 40), (16, 16), (31, 200)]
    for number, shape in enumerate(shapes):
        picture = Image.fromarray(draw.integers(0, 256, (*shape, 3), dtype=np.uint8))
        picture.save(tmp_path / f"photos/{number}.{suffix}")
    config = DataConfig(
        source=str(tmp_path / "photos"), rows=16, cols=12, crop="squash", resample="bilinear", holdout=0.0
    )
    own = load_dataset(config, cache=tmp_path / "cache").train.images
    plain = {"do_rescale": False, "do_normalize": False}
    size = {"height": 16, "width": 12}
    processor = getattr(transformers, name)(size=size, do_color_quantize=False, **plain)
    pictures = [Image.open(path) for path in sorted((tmp_path / "photos").iterdir())]
    theirs = processor(pictures, return_tensors="pt").pixel_values
    assert torch.equal(own.float(), theirs.float())

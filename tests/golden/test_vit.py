"""Our Vision Transformers and images against others: Hugging Face's ViT, ViTMAE and image processors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import Tensor, nn

import isopix
from isopix.core.config import from_dict, to_dict
from isopix.core.types import Images
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.finetuning.evaluate import predict_logits
from isopix.interop.vit_read import read_huggingface_vit
from isopix.model.network import Network
from isopix.recipes.recipe import Recipe
from tests.golden.vits import TOLERANCE, assert_equal_states, images, own_states, randomized
from tests.trained import load_finetuned

transformers = pytest.importorskip("transformers", reason="the reference is in the extra bench")
modeling_vit_mae = pytest.importorskip("transformers.models.vit_mae.modeling_vit_mae")

# Their loaders leave files open to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

BLOCKS = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
SIZES = {**BLOCKS, "image_size": 32, "patch_size": 8}
NOT_SQUARE = ((97, 128), (128, 97), (100, 128), (75, 101), (90, 127), (128, 120), (31, 77), (426, 640))
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
VARIANTS = {
    "plain": {},
    "GELU in Python": {"hidden_act": "gelu_python"},
    "tanh, no query bias": {"hidden_act": "gelu_pytorch_tanh", "qkv_bias": False},
    "other norm, wide MLP": {"layer_norm_eps": 1e-3, "intermediate_size": 128, "hidden_act": "quick_gelu"},
}


def saved(theirs: nn.Module, folder: Path, **processor: object) -> Path:
    """Their model and their image processor, as they save themselves."""
    theirs.save_pretrained(folder)
    settings = {"size": {"height": 32, "width": 32}, **processor}
    transformers.ViTImageProcessorPil(**settings).save_pretrained(folder)
    return folder


def pixel_values(folder: Path, pixels: Images) -> Tensor:
    """What their image processor gives their model."""
    processor = transformers.ViTImageProcessorPil.from_pretrained(folder)
    return processor(list(pixels.permute(0, 2, 3, 1).numpy()), return_tensors="pt").pixel_values


def their_states(theirs: nn.Module, values: Tensor, **inputs: Tensor) -> list[Tensor]:
    with torch.no_grad():
        output = theirs(pixel_values=values, output_hidden_states=True, **inputs)
    return [*output.hidden_states, output.last_hidden_state]


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=list(VARIANTS))
def test_hidden_states_of_a_vit(settings: dict[str, object], tmp_path: Path) -> None:
    theirs = randomized(transformers.ViTModel(transformers.ViTConfig(**(SIZES | settings))))
    folder = saved(theirs, tmp_path / "theirs", **IMAGENET)
    imported = read_huggingface_vit(folder)
    assert_equal_states(own_states(imported, images()), their_states(theirs, pixel_values(folder, images())))
    assert from_dict(Recipe, to_dict(imported.recipe)) == imported.recipe
    assert {*imported.skipped.values()} == {"pooler"}


def test_hidden_states_of_mae_under_a_mask(tmp_path: Path) -> None:
    config = transformers.ViTMAEConfig(
        **SIZES, decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2
    )
    theirs = randomized(transformers.ViTMAEForPreTraining(config))
    table = modeling_vit_mae.build_2d_sinusoidal_position_embedding(4, 4, 32, cls_token=True)
    theirs.vit.embeddings.position_embeddings.data[0] = table.roll(16, 1)  # MAE has columns before rows
    folder = saved(theirs, tmp_path / "theirs", **IMAGENET)
    imported = read_huggingface_vit(folder)
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
    found = read_huggingface_vit(saved(theirs, tmp_path / "a", **IMAGENET))
    assert found.recipe.model.positions.kind == "learned"


@pytest.fixture
def classifier(tmp_path: Path) -> tuple[nn.Module, Path]:
    labels = dict(enumerate("abcde"))
    numbers = {name: i for i, name in labels.items()}
    config = transformers.ViTConfig(**SIZES, id2label=labels, label2id=numbers)
    theirs = randomized(transformers.ViTForImageClassification(config))
    return theirs, saved(theirs, tmp_path / "theirs", **IMAGENET)


def own_logits(run: Path, pixels: Images) -> Tensor:
    tuned = load_finetuned(run)
    assert tuned.classes == ("a", "b", "c", "d", "e")
    return predict_logits(tuned.model, pixels, None, precision="fp32")


def test_logits_of_a_classifier_and_of_its_export(classifier: tuple[nn.Module, Path], tmp_path: Path) -> None:
    theirs, folder = classifier
    values = pixel_values(folder, images())
    with torch.no_grad():
        reference = theirs(values).logits
    isopix.import_model(folder, tmp_path / "run")
    assert (
        own_logits(tmp_path / "run", images()) - reference
    ).abs().max() <= TOLERANCE * reference.abs().max()
    found = isopix.export(tmp_path / "run", tmp_path / "exported")
    assert (found.load_with.split(".")[1], dict(found.skipped)) == ("ViTForImageClassification", {})
    again = transformers.ViTForImageClassification.from_pretrained(tmp_path / "exported").eval()
    assert again.config.id2label == theirs.config.id2label
    assert torch.equal(pixel_values(tmp_path / "exported", images()), values)
    with torch.no_grad():
        assert (again(values).logits - reference).abs().max() <= TOLERANCE * reference.abs().max()
    isopix.import_model(tmp_path / "exported", tmp_path / "second")
    assert torch.equal(own_logits(tmp_path / "second", images()), own_logits(tmp_path / "run", images()))


@pytest.mark.parametrize("resample", [2, 3])
@pytest.mark.parametrize(("shorter", "side"), [(40, 32), (32, 32), (256, 224)])
def test_pixels_of_a_center_crop_are_those_of_the_image_processor(
    tmp_path: Path, shorter: int, side: int, resample: int
) -> None:
    """Of photographs that are not square, larger and smaller than the input, with odd margins."""
    config = transformers.ViTConfig(**{**SIZES, "image_size": side})
    theirs = transformers.ViTModel(config, add_pooling_layer=False)
    crop = {"do_center_crop": True, "crop_size": {"height": side, "width": side}, "resample": resample}
    source = saved(theirs, tmp_path / "vit", size={"shortest_edge": shorter}, **crop)
    photographs = [load_sample_image("china.jpg"), load_sample_image("flower.jpg")]
    shown = [photographs[number % 2][:h, :w] for number, (h, w) in enumerate(NOT_SQUARE)]
    (tmp_path / "photos").mkdir()
    for number, pixels in enumerate(shown):
        Image.fromarray(pixels).save(tmp_path / f"photos/{number}.png")
    own = replace(read_huggingface_vit(source).recipe.data, source=str(tmp_path / "photos"), holdout=0.0)
    found = load_dataset(own, cache=tmp_path / "cache").train.images
    processor = transformers.ViTImageProcessorPil.from_pretrained(source)
    values = torch.cat([processor(each, return_tensors="pt").pixel_values for each in shown])
    assert torch.equal(found, ((values + 1) * 127.5).round().to(torch.uint8))
    isopix.import_model(source, tmp_path / "run")
    isopix.export(tmp_path / "run", tmp_path / "exported")
    again = transformers.ViTImageProcessorPil.from_pretrained(tmp_path / "exported")
    assert torch.equal(torch.cat([again(each, return_tensors="pt").pixel_values for each in shown]), values)


def test_a_network_of_ours_is_exported(tmp_path: Path) -> None:
    """With a mask token and a head of codes, which ViTModel does not have."""
    settings = ["size=16", "patch_size=4", "steps=2", "batch_size=4", "depth=2", "crop_fraction=0.8"]
    run = isopix.pretrain("vit.tiny", *settings, data="digits", out=tmp_path / "run")
    found = isopix.export(run, tmp_path / "exported")
    assert dict(found.skipped) == {"head of codes": 1, "mask token": 1}
    model = isopix.load(run, device="cpu")
    theirs = transformers.ViTModel.from_pretrained(tmp_path / "exported", add_pooling_layer=False).eval()
    pixels = images()[..., :16, :16]
    values = (pixels / 127.5 - 1).float()
    network: Network = model.network
    with torch.no_grad():
        own = list(network.backbone.hidden_states(network.inputs_of(pixels)))
        assert_equal_states([*own, network.backbone.norm(own[-1])], their_states(theirs, values))
    assert isopix.import_model(tmp_path / "exported", tmp_path / "second").path.is_dir()
    data = isopix.load(tmp_path / "second", device="cpu").loaded.recipe.data
    assert (data.crop, data.crop_fraction) == ("resized_center", 0.8)


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

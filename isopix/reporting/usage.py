"""Programs for the model cards of models exported to `transformers`: their loss, features or classes."""

SHIFT = (
    "The model was trained to predict each pixel from those before it: its input is the start token (the "
    "last id) and all pixels but the last. The classes of `transformers` do not add the start token; without "
    "it, every pixel is one position early, and the features differ."
)
USE = """```python
import torch
from PIL import Image
from transformers import AutoImageProcessor, ImageGPTForCausalImageModeling

processor = AutoImageProcessor.from_pretrained({name})
model = ImageGPTForCausalImageModeling.from_pretrained({name}).eval()

picture = Image.open("picture.png").convert("RGB")
codes = processor(picture, return_tensors="pt").input_ids
start = torch.full((len(codes), 1), model.config.vocab_size - 1)
shifted = torch.cat([start, codes[:, :-1]], 1)

with torch.no_grad():
    output = model(input_ids=shifted, output_hidden_states=True)
nats = torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), codes.flatten())
features = {features}.mean(1)
```"""
BETWEEN = "model.transformer.h[{layer}].ln_1(output.hidden_states[{layer}])"
LAST = "output.hidden_states[{layer}]"  # the final norm is already applied
LABELS = "`nats` is the mean loss per pixel. Do not pass `labels`: the model would shift them again."
VIT = """```python
import torch
from PIL import Image
from transformers import AutoImageProcessor, ViTModel

processor = AutoImageProcessor.from_pretrained({name})
model = ViTModel.from_pretrained({name}, add_pooling_layer=False).eval()

picture = Image.open("picture.png").convert("RGB")
with torch.no_grad():
    output = model(**processor(picture, return_tensors="pt"), output_hidden_states=True)
features = output.hidden_states[{layer}][:, 1:].mean(1)
```"""
CLASSIFIER = """```python
import torch
from PIL import Image
from transformers import AutoImageProcessor, ViTForImageClassification

processor = AutoImageProcessor.from_pretrained({name})
model = ViTForImageClassification.from_pretrained({name}).eval()

picture = Image.open("picture.png").convert("RGB")
with torch.no_grad():
    logits = model(**processor(picture, return_tensors="pt")).logits
print(model.config.id2label[int(logits.argmax())])
```"""
TOKENS = "`hidden_states` start with the class token, which is left out of the mean over patches."


def imagegpt_usage(name: str, *, layer: int, depth: int) -> list[str]:
    """Return Markdown paragraphs with a program that computes the loss and the features of a layer."""
    features = (LAST if layer == depth else BETWEEN).format(layer=layer)
    return [SHIFT, USE.format(name=repr(name), features=features), LABELS]


def vit_usage(name: str, *, layer: int, classifies: bool) -> list[str]:
    """Return Markdown paragraphs with a program that computes the features of a layer, or the class."""
    if classifies:
        return [CLASSIFIER.format(name=repr(name))]
    return [VIT.format(name=repr(name), layer=layer), TOKENS]

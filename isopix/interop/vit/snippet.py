"""Usage example for the model card of a Vision Transformer exported to `transformers`."""

MODEL = """```python
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


def vit_usage(name: str, *, layer: int, classifies: bool) -> list[str]:
    """Return Markdown paragraphs with a program that computes the features of a layer, or the class."""
    if classifies:
        return [CLASSIFIER.format(name=repr(name))]
    return [MODEL.format(name=repr(name), layer=layer), TOKENS]

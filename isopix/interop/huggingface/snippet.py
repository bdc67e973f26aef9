"""Snippet: how a model in a folder of Hugging Face's is used with their library, as a card tells it."""

SHIFT = (
    "The network was trained to name each pixel from those before it: it reads a start symbol, the last id, "
    "and then all pixels but the last. The classes of `transformers` add no start symbol by themselves; "
    "without it every pixel stands one place early, and the features are others."
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
LAST = "output.hidden_states[{layer}]"  # the final norm is in it already
LABELS = "`nats` is the mean loss of a pixel. Do not pass `labels`: the model would shift once more."


def usage(name: str, *, layer: int, depth: int) -> list[str]:
    """Paragraphs in Markdown; the program in them computes the loss and the features of that layer."""
    features = (LAST if layer == depth else BETWEEN).format(layer=layer)
    return [SHIFT, USE.format(name=repr(name), features=features), LABELS]

"""An evaluator: the fraction of targets that are the most likely code, on validation images.

isopix pretrain igpt.digits --plugin examples/extend/accuracy_evaluator.py --out runs/accuracy \
    'train.evaluators=[{kind: code_accuracy, num_images: 64}]'
"""

from isopix import parts


@parts.register("code_accuracy")
class CodeAccuracy(parts.EvaluatorSpec):
    """`code_accuracy`: the fraction of the targets in the loss that are the most likely code."""

    num_images: int = 256

    def label(self) -> str:
        return f"code accuracy, {self.num_images} images"

    def start(self, context: parts.EvaluationContext) -> parts.Evaluator:
        images = context.data.validation.images[: self.num_images]

        def evaluate(step: int) -> parts.Metrics:
            if not len(images):
                return {}
            network, draw = context.network, parts.generator(context.seed, "code_accuracy")
            batch = context.model.make_batch(images.to(network.device), draw)
            correct = network.predict(batch.inputs, batch.mask) == batch.targets
            return {"code_accuracy": correct[batch.loss_mask.expand_as(correct)].float().mean().item()}

        return evaluate

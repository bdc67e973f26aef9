"""A short training whose evaluations, records and checkpoints a test can read."""

from collections.abc import Callable

from torch import nn

from isopix.data.batches import Batches
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.objectives.objectives import Masked
from isopix.recipes.recipe import Recipe
from isopix.train.evaluator import EvaluationContext, EvaluationError, EvaluatorSpec, HeldOutLoss, Metrics
from isopix.train.optim import WarmupCosineSchedule
from isopix.train.tasks import PretrainTask
from isopix.train.trainer import Callbacks, Trainer
from tests.laws import cases

RECIPE = cases.CASES[0].updated(
    data=DataConfig(source="digits", rows=8, cols=8, limit=40),
    objective=Masked(),
    schedule=WarmupCosineSchedule(max_warmup_fraction=0.5),  # so that the warmup of 5 steps is an epoch
    seed=3,
    steps=12,
    batch_size=8,
    log_every=1,
    evaluate_every=100,
    evaluate_images=20,
    checkpoint_every=100,
)


RHYTHM = RECIPE.updated(steps=7, log_every=2, evaluate_every=3, checkpoint_every=4)


class Spy(PretrainTask):
    """Keeps the batches of training, and the images and batches of evaluations."""

    def __init__(self, recipe: Recipe):
        super().__init__(cases.model(recipe))
        self.batches, self.evaluated, self.masks = [], [], []

    def make_batch(self, images, labels, generator):
        batch = super().make_batch(images, labels, generator)
        self.batches.append(batch)
        return batch

    def evaluate(self, images, labels, generator):
        self.evaluated.append(images)
        self.masks.append(self.module.make_batch(images, generator.clone_state()).mask)
        return super().evaluate(images, labels, generator)


class Run:
    """A recipe trained to its end, or to a stop, and everything that its callbacks were called with."""

    def __init__(
        self,
        recipe: Recipe,
        stop: Callable[[], bool] = lambda: False,
        evaluators: tuple[EvaluatorSpec, ...] = (),
        task: PretrainTask | None = None,
    ):
        self.recipe, self.data = recipe, images(recipe)
        config = recipe.train
        self.task = task or Spy(recipe)
        self.batches = Batches(self.data.train, batch_size=config.batch_size, seed=config.seed)
        self.records, self.saved, self.lrs = [], [], []
        self.trainer = Trainer(
            self.task,
            config,
            batches=self.batches,
            evaluators=(HeldOutLoss(num_images=config.evaluate_images), *evaluators),
            context=EvaluationContext(
                self.task,
                self.task.module.network,
                self.data,
                config.seed,
                config.precision_on(self.batches.device),
            ),
            callbacks=Callbacks(self.records.append, self.save, stop),
        )
        self.reached = self.trainer.run()

    def save(self, step, optimizer) -> None:
        self.saved.append(step)
        self.lrs.append(self.trainer.train_step.optimizer.param_groups[0]["lr"])

    def steps(self, kind: str) -> list[int]:
        return [record["step"] for record in self.records if record["kind"] == kind]

    def numbers(self, kind: str, name: str) -> list[float]:
        return [record[name] for record in self.records if record["kind"] == kind]


def images(recipe: Recipe) -> ImageDataset:
    return load_dataset(recipe.data)


class Steps(EvaluatorSpec):
    """Returns the step under a name, notes whether the model is in evaluation mode, or fails."""

    kind = "steps"
    name: str = "reached"
    fails_at: int | None = None

    def start(self, context: EvaluationContext) -> Callable[[int], Metrics]:
        module: nn.Module = context.task.module

        def evaluate(step: int) -> Metrics:
            if step == self.fails_at:
                raise EvaluationError("it did not converge")
            return {self.name: step, f"{self.name}_training": float(module.training)}

        return evaluate

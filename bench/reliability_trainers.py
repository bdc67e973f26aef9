"""Three trainers of one small network on the same images, as their documentation says: start, or resume.

All save a checkpoint after every step. Each runs in a process forked by `reliability_process`.
"""

import os
import shutil
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import torch
import transformers
from reliability_process import MARKS
from safetensors.torch import load_file
from speed import image_gpt
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers.trainer_utils import get_last_checkpoint

import isopix
from isopix.__main__ import main as isopix_main
from isopix.data.load import load_dataset
from isopix.recipes import registry
from isopix.runs.state import CheckpointWriter
from isopix.train.train_step import TrainStep

STEPS, BATCH_SIZE, IMAGES = 24, 8, 72  # 8 batches in an epoch of the training images
SETTINGS = [f"steps={STEPS}", f"batch_size={BATCH_SIZE}", f"data.limit={IMAGES}", "checkpoint_every=1"]
SETTINGS += [f"evaluate_every={STEPS}", "evaluate_images=8", "num_test_images=8"]
RECIPE = "igpt.digits"


class Trainer(ABC):
    """A way to train: its name and its checkpoints."""

    name: str

    @abstractmethod
    def main(self, out: Path) -> int:
        """Start the training in `out`, or continue from the newest checkpoint there; return the exit code."""

    @abstractmethod
    def newest(self, out: Path) -> Path | None:
        """Return the newest checkpoint under its final name, whole or not."""

    @abstractmethod
    def step_of(self, checkpoint: Path) -> int | None:
        """Return the step in the name of a checkpoint."""

    @abstractmethod
    def weights(self, checkpoint: Path) -> dict[str, Tensor]:
        """Return the weights in a checkpoint."""

    def files(self, checkpoint: Path) -> list[Path]:
        return sorted(path for path in checkpoint.rglob("*") if path.is_file())


class Isopix(Trainer):
    """The command line: `pretrain`, and `resume` once the run folder is there."""

    name = f"isopix {isopix.__version__}"

    def __init__(self) -> None:
        """Note steps and saves of the command's own code."""
        step, write = TrainStep.__call__, CheckpointWriter._write

        def marked_step(one: TrainStep, batch: Any, *, step: int, lr_factor: float, call: Any = step) -> Any:
            losses = call(one, batch, step=step, lr_factor=lr_factor)
            MARKS.stepped(step)
            return losses

        def marked_write(one: CheckpointWriter, target: Path, *rest: Any) -> None:
            with MARKS.saving(int(target.name.removeprefix("step-"))):
                write(one, target, *rest)

        TrainStep.__call__, CheckpointWriter._write = marked_step, marked_write

    def main(self, out: Path) -> int:
        begun = ["resume", str(out)] if out.exists() else ["pretrain", RECIPE, *SETTINGS, "--out", str(out)]
        sys.argv = ["isopix", *begun]
        isopix_main()
        return 0

    def newest(self, out: Path) -> Path | None:
        return max((out / "checkpoints").glob("step-*"), default=None)

    def step_of(self, checkpoint: Path) -> int:
        return int(checkpoint.name.removeprefix("step-"))

    def weights(self, checkpoint: Path) -> dict[str, Tensor]:
        return load_file(checkpoint / "model.safetensors")


class Codes(Dataset):
    """The codes of images, shape [N, positions], as inputs and labels."""

    def __init__(self, codes: Tensor):
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.codes[index], "labels": self.codes[index]}


class MarkedTrainer(transformers.Trainer):
    """Hugging Face's Trainer, whose saves are noted."""

    def _save_checkpoint(self, *args: Any, **options: Any) -> None:
        with MARKS.saving(self.state.global_step):
            super()._save_checkpoint(*args, **options)


class MarkSteps(transformers.TrainerCallback):
    """Notes the steps."""

    def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        MARKS.stepped(state.global_step)


class HuggingFace(Trainer):
    """`Trainer` of transformers, resumed where `get_last_checkpoint` finds one, as in its example scripts."""

    name = f"Hugging Face Trainer, transformers {transformers.__version__}"
    arguments: ClassVar = {
        "max_steps": STEPS,
        "per_device_train_batch_size": BATCH_SIZE,
        "save_steps": 1,
        "save_total_limit": 2,
    }

    def __init__(self, model: nn.Module, codes: Tensor):
        self.model, self.codes = model, codes

    def main(self, out: Path) -> int:
        arguments = transformers.TrainingArguments(output_dir=str(out), **self.arguments)
        trainer = MarkedTrainer(
            model=self.model, args=arguments, train_dataset=Codes(self.codes), callbacks=[MarkSteps()]
        )
        trainer.train(resume_from_checkpoint=self.newest(out) is not None)
        return 0

    def newest(self, out: Path) -> Path | None:
        found = get_last_checkpoint(out) if out.is_dir() else None
        return None if found is None else Path(found)

    def step_of(self, checkpoint: Path) -> int:
        return int(checkpoint.name.removeprefix("checkpoint-"))

    def weights(self, checkpoint: Path) -> dict[str, Tensor]:
        return load_file(checkpoint / "model.safetensors")


class PlainLoop(Trainer):
    """A loop as nanoGPT's: model, optimizer and step in one file, batches from the global generator."""

    name = f"torch.save over one file, torch {torch.__version__}"

    def __init__(self, model: nn.Module, codes: Tensor):
        self.model, self.codes = model, codes

    def main(self, out: Path) -> int:
        out.mkdir(exist_ok=True)
        path, model, first = out / "ckpt.pt", self.model.train(), 1
        torch.manual_seed(0)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
        if path.exists():
            found = torch.load(path)
            model.load_state_dict(found["model"])
            optimizer.load_state_dict(found["optimizer"])
            first = found["step"] + 1
        for step in range(first, STEPS + 1):
            batch = self.codes[torch.randint(len(self.codes), (BATCH_SIZE,))]
            optimizer.zero_grad()
            model(input_ids=batch, labels=batch).loss.backward()
            optimizer.step()
            MARKS.stepped(step)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            with MARKS.saving(step):
                torch.save(state, path)
        return 0

    def newest(self, out: Path) -> Path | None:
        path = out / "ckpt.pt"
        return path if path.exists() else None

    def step_of(self, checkpoint: Path) -> None:
        return None

    def weights(self, checkpoint: Path) -> dict[str, Tensor]:
        return torch.load(checkpoint)["model"]

    def files(self, checkpoint: Path) -> list[Path]:
        return [checkpoint]


def delete(checkpoint: Path) -> None:
    """Delete a checkpoint, as a user does by hand if nothing else helps."""
    with suppress(NotADirectoryError):
        shutil.rmtree(checkpoint)
        return
    checkpoint.unlink()


def build_trainers() -> dict[str, Trainer]:
    """Return the trainers, by the names of the result; the peers have the weights that isopix starts with."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    recipe = registry.resolve(RECIPE, settings=SETTINGS).recipe
    data = load_dataset(recipe.data)
    codec = recipe.model.codec.fit(data.train.images, recipe.grid, recipe.train.seed)
    network = recipe.build(codec)
    codes = codec.encode(data.train.images)[..., 0]
    return {
        "isopix": Isopix(),
        "hugging_face": HuggingFace(image_gpt.with_weights_of(network), codes),
        "torch_save": PlainLoop(image_gpt.with_weights_of(network), codes),
    }

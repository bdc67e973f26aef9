"""Pretrained: a network with six verbs, the same for every kind of model, and its folder."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.api.inputs import Given, hidden_of, images_of, is_whole, one_of, some, whole
from isopix.core import device as devices
from isopix.core.config import to_dict
from isopix.core.device import Precision, autocast
from isopix.core.random import generator
from isopix.core.types import Images, Logits
from isopix.generate import complete, reconstruct, sample
from isopix.generate.reconstruct import Reconstruction
from isopix.generate.sample import Painted, Sampling
from isopix.interop import hub
from isopix.interop.huggingface.convert import unshifted
from isopix.model.backbone import Stream
from isopix.model.pool import Pool
from isopix.probe.features import extract
from isopix.probe.results import Reading
from isopix.runs.load import Loaded
from isopix.runs.load import load_run as load_network
from isopix.storage import checkpoint
from isopix.storage.run_folder import refuse_theirs

BATCH = 16  # images a pass, unless more are asked for


class Pretrained:
    """A pre-trained network: `logits`, `features`, `nll`, `sample`, `complete`, `reconstruct`.

    Wherever images are taken they are uint8 [B 3 H W] or [B H W 3], arrays or tensors, of the model's own
    resolution; integer codes [B N] or [B N Q] may stand for them. Answers are on the CPU; chance is a
    function of `seed`, and of what is drawn at once. What a kind of model cannot do raises a ValueError that
    says what it can; so does anything that is not taken.
    """

    def __init__(self, loaded: Loaded, *, precision: Precision = "fp32"):
        one_of("precision", precision, Precision)
        self.loaded, self.precision = loaded, precision
        self.network = loaded.network.eval()

    def __repr__(self) -> str:
        recipe, grid = self.loaded.recipe, self.network.codec.grid
        shape = f"{recipe.model.depth} × {recipe.model.width}, {self.network.codec.levels} levels"
        kind, step = recipe.objective.kind, self.loaded.step
        return f"Pretrained({recipe.name}: {shape}, {grid.rows}×{grid.cols}, {kind}, step {step})"

    @property
    def depth(self) -> int:
        """L: the layers are 0..L."""
        return self.network.backbone.depth

    def images(self, given: Given) -> Images:
        """Images of the model's resolution from what a caller gave. Raises ValueError that says what is
        taken.
        """
        return images_of(given, self.network.codec, self.network.device)

    def logits(self, images: Given, *, hidden: Given | None = None, batch: int = BATCH) -> Logits:
        """Logits [B N Q K] of every position; of a masked model with positions hidden where `hidden`, bool
        [B N], or single codes where bool [B N Q], says so.

        Those of position i answer what stands at i: a causal model has seen the positions before i alone.
        """
        if hidden is not None and self.network.objective.paints:
            raise ValueError("an autoregressive model hides nothing; leave out `hidden`")
        whole("batch", batch)
        given, device, parts = some(self.images(images)), self.network.device, []
        every = None if hidden is None else hidden_of(hidden, given, self.network.codec)
        for start in range(0, len(given), batch):
            part = slice(start, start + batch)
            masks = None if every is None else every[part].to(device)
            with torch.no_grad(), autocast(device, self.precision):
                parts.append(self.network.logits(given[part].to(device), masks).cpu())
        return torch.cat(parts)

    def features(
        self,
        images: Given,
        layer: int,
        *,
        stream: Stream = "n",
        pool: Pool = "mean",
        reading: Reading = "paper",
        batch: int | None = None,
    ) -> Float[Tensor, "B D"]:
        """What a linear probe reads at a layer 0..L (iGPT section 2.4); negative layers count from the end.

        `reading` huggingface leaves out the start symbol, as a user of Hugging Face's feature path does.
        Raises ValueError for a layer that is not there.
        """
        one_of("stream", stream, Stream)
        one_of("pool", pool, Pool)
        one_of("reading", reading, Reading)
        if batch is not None:
            whole("batch", batch)
        if not is_whole(layer) or not -self.depth - 1 <= layer <= self.depth:
            raise ValueError(f"layer {layer} is not there; layers are 0 to {self.depth}")
        backbone = self.network.backbone if reading == "paper" else unshifted(self.network.backbone)
        cut = backbone.upto(layer % (self.depth + 1))
        settings: dict[str, Any] = {"stream": stream, "pool": pool, "batch": batch}
        return extract(cut, self.images(images), precision=self.precision, **settings)[-1]

    def nll(self, images: Given, *, seed: int = 0, batch: int = BATCH) -> Float[Tensor, " B"]:
        """Mean nats per graded code of each image: all codes of a causal model, those hidden of a masked one.

        A masked model hides positions as in training, by `seed`, so that one image's number is an estimate.
        """
        whole("batch", batch)
        given = some(self.images(images)).to(self.network.device)
        problem = self.network.prepare(given, generator(seed, "nll"))
        with torch.no_grad(), autocast(self.network.device, self.precision):
            return torch.cat(
                [self.network.nll(part).cpu() for part in problem.chunks(-(-len(given) // batch))]
            )

    def sample(
        self, count: int, *, sampling: Sampling | None = None, seed: int = 0, batch: int = 64
    ) -> Painted:
        """`count` images from nothing, uint8 [count 3 H W], `batch` at a time: another `batch` draws others.

        Raises ValueError for a masked model.
        """
        whole("count", count)
        whole("batch", batch)
        draw = generator(seed, "sample")
        parts = [min(batch, count - start) for start in range(0, count, batch)]
        how = sampling or Sampling()
        with autocast(self.network.device, self.precision):
            painted = [sample.sample(self.network, part, sampling=how, generator=draw) for part in parts]
        return torch.cat([part.cpu() for part in painted])

    def complete(
        self, images: Given, rows: int, *, each: int = 1, sampling: Sampling | None = None, seed: int = 0
    ) -> Painted:
        """`each` completions of every image from its first `rows` rows, uint8 [B*each 3 H W], those of one
        image next to one another. Raises ValueError for a masked model, and for rows that leave nothing.
        """
        whole("rows", rows)
        whole("each", each)
        given = some(self.images(images)).to(self.network.device)
        with autocast(self.network.device, self.precision):
            painted = complete.complete(
                self.network,
                given,
                rows=rows,
                each=each,
                sampling=sampling or Sampling(),
                generator=generator(seed, "complete"),
            )
        return painted.cpu().clone()

    def reconstruct(self, images: Given, *, seed: int = 0) -> Reconstruction:
        """Positions hidden as in training, by `seed`, and the likeliest codes drawn in their places. Raises
        ValueError for an autoregressive model.
        """
        given = some(self.images(images)).to(self.network.device)
        with autocast(self.network.device, self.precision):
            found = reconstruct.reconstruct(self.network, given, generator=generator(seed, "reconstruct"))
        return found.cpu()


def load(where: str | Path, *, device: str = "auto", precision: Precision = "fp32") -> Pretrained:
    """The model in a run folder, in a folder that `save` wrote, or in one of the hub (`owner/name`).

    Raises ValueError for what is no such folder or is damaged, RuntimeError if the hub cannot be reached.
    """
    one_of("precision", precision, Precision)
    folder = hub.located(where)
    refuse_theirs(folder, where)
    return Pretrained(load_network(folder, device=devices.pick(device)), precision=precision)


def save(model: Pretrained, folder: str | Path) -> None:
    """Write a folder that `load` reads: weights as safetensors, recipe, palette, and a hash of each file.

    Raises ValueError if the folder holds anything, RuntimeError if the disk is full.
    """
    if not isinstance(model, Pretrained):
        raise ValueError(f"a {type(model).__name__} cannot be saved; save takes what isopix.load returns")
    folder, loaded = Path(folder), model.loaded
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not empty; choose another folder")
    codec = loaded.network.codec.fingerprint()
    records = {
        "environment": devices.environment(loaded.network.device),
        **loaded.records,
        "recipe": to_dict(loaded.recipe),
        "state": {**loaded.records["state"], "step": loaded.step, "codec": codec},
    }
    checkpoint.save(folder, {"model": loaded.network.tensors()}, records)


def publish(model: Pretrained, name: str, *, card: str = "", private: bool = False) -> str:
    """Upload what `save` writes, and a model card, to the hub's model `name` (owner/name); its address.

    Raises ValueError for a name that is none, RuntimeError if the hub cannot be reached or refuses.
    """
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        save(model, folder)
        if card:
            (folder / "README.md").write_text(card, encoding="utf-8")
        return hub.publish(folder, name, private=private)

"""Ablation of the modern recipe: each part alone added to the faithful one, each left out of the whole.

python bench/ablation.py --data cifar10 --out bench/results/ablation.json      # 14 hours of two cores
python bench/ablation.py --data cifar10 --out ablation.json --only faithful modern --seeds 1 --minutes 50

Every run is recorded as it ends, and the same command trains those that are missing; one that was stopped
resumes. The learning rates of both ends are tuned with one seed. `ablation_table.py` makes table and figure.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from commands import run_once
from recorded_runs import RecordedRuns, parser

from isopix.recipes import registry

STEPS = 400
ENDS = {"faithful": "igpt.tiny", "modern": "modern.tiny"}
# What switches a part on, and off, the first setting alone; optimizers take the best rate of their end.
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "embedding by color": (("stem.kind=color_embedding", "stem.std=0.02"), ("stem.kind=token_embedding",)),
    "convolution of embeddings": (("embedding_conv=true",), ("embedding_conv=false",)),
    "rotary positions": (("positions.kind=rotary",), ("positions.kind=learned",)),
    "windows of three rows": (("attention_rows=3",), ("attention_rows=null",)),
    "norm of queries and keys": (("block.qk_norm_scale=0.12",), ("block.qk_norm_scale=null",)),
    "squared ReLU": (("block.mlp.activation=relu_squared",), ("block.mlp.activation=quick_gelu",)),
    "zero residual branches": (("init=zero_residual",), ("init=openai",)),
    "Muon": (
        ("optimizer.kind=muon", "lr=0.02", "adam_lr=0.006", "momentum=0.9"),
        ("optimizer.kind=adam", "lr=0.006"),
    ),
    "linear end": (("schedule.kind=linear_end",), ("schedule.kind=warmup_cosine",)),
    "average of weights": (("ema=0.99",), ("ema=null",)),
    "flips": (("data.augment.kind=pad_crop_flip", "data.augment.pad=0"), ("data.augment=none",)),
}
SHORTER = (4, 6)  # parts of the steps that the whole schedule of the modern recipe takes
OWN_SIZE = ("size=32", "batch_size=16")  # of `igpt.tiny`, as is the number of steps
PROBED = 2000  # images


class Row(NamedTuple):
    """A row of the table: an end with settings, and the steps in units of those of the end."""

    name: str
    end: str
    settings: tuple[str, ...] = ()
    length: float = 1.0
    once: bool = False  # whether one seed is all


def rows() -> list[Row]:
    found = [Row(end, end) for end in ENDS]
    found += [Row(f"modern, 1/{part} of the steps", "modern", length=1 / part) for part in SHORTER]
    for end in ENDS:
        found += [part_row(end, part) for part in PARTS]
    found += [Row(f"{end}, 32x32", end, OWN_SIZE, length=2.5, once=True) for end in ENDS]
    return found


def part_row(end: str, part: str) -> Row:
    """Return the row of an end without a part that it has, or with one that it does not have."""
    on, off = PARTS[part]
    plain = registry.find(ENDS[end])
    has = registry.resolve(plain, settings=off[:1]).recipe != plain
    return Row(f"{end} {'-' if has else '+'} {part}", end, off if has else on)


class Ablation(RecordedRuns):
    def measure(self, row: Row, lr: float, seed: int) -> dict[str, Any]:
        """Return the record of a run: losses, costs, the probe of each layer and the time of samples."""
        name = f"{row.name}, lr {lr:g}, seed {seed}" if row.name in ENDS else f"{row.name}, seed {seed}"
        steps = int(row.length * self.steps)

        def measured(folder: Path) -> dict[str, Any]:
            words = (f"lr={lr}", *row.settings)
            found = self.train(folder, ENDS[row.end], *words, seed=seed, steps=steps)
            limit = str(200 if self.options.tiny else PROBED)
            run_once(folder / "probes", "probe", str(folder), "--limit", limit)
            return {"row": row.name, "end": row.end, **found, "probe": probe_scores(folder)}

        return self.run(name, steps, measured)

    def rate(self, end: str) -> float:
        base = registry.find(ENDS[end]).train.optimizer.lr
        return self.best_rate(base, lambda lr: self.measure(Row(end, end), lr, seed=0))


def probe_scores(run: Path) -> dict[str, Any]:
    """Return the accuracies of each layer, and the layer that validation images chose."""
    [path] = (run / "probes").glob("probe-*.json")
    probe = json.loads(path.read_text())["network"]
    names = ("layer", "val_accuracy", "test_accuracy", "interval")
    layers = [{name: each[name] for name in names} for each in probe["layers"]]
    return {"num_images": probe["num_images"], "layers": layers, "chosen": layers[probe["best_index"]]}


def main() -> None:
    every = {row.name: row for row in rows()}
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=every, default=list(every), metavar="ROW")
    given = options.parse_args()
    runs = Ablation("ablation", given, STEPS)
    rates = {end: runs.rate(end) for end in ENDS if any(every[name].end == end for name in given.only)}
    for seed in range(given.seeds):
        for row in (every[name] for name in given.only):
            if seed == 0 or not row.once:
                runs.measure(row, rates[row.end], seed)


if __name__ == "__main__":
    main()

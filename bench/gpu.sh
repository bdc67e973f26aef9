#!/usr/bin/env bash
# All that wants a GPU, in one go: checks first, then every benchmark at the paper's sizes. Keeps JSON in bench/results.
# With DATA=<CIFAR-10> it then trains cells of the study at the paper's size for SECONDS_OF_CELLS (1200), and goes on
# with them in STUDY when called again.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD:$PWD/bench"
out=bench/results
mkdir -p "$out"
python - <<'CHECK'
"""The same seed draws the same masks, codes and losses on CPU and GPU; a step learns; compiled equals plain."""
import torch
from isopix.core.random import generator
from isopix.recipes import catalogue
from isopix.train.tasks import Pretraining
from isopix.train.optim import Adam
from isopix.train.train_step import Stepper

CELLS = [f"isotropic.tiny-{block}-3" for block in ("conv-pix2vec", "mixer-fourier", "transformer-4-continuous")]
for name in ("igpt.digits", "igpt.digits_bert", *CELLS):
    recipe = catalogue.find(name)
    grey = torch.arange(17).float()[:, None].expand(17, 3) * 15
    images = torch.randint(0, 256, (64, 3, *recipe.grid), dtype=torch.uint8, generator=generator(0, "gpu"))
    losses = {}
    for device, compiled in (("cpu", False), ("cuda", False), ("cuda", True)):
        codec = recipe.model.codec.example(recipe.grid) if name in CELLS else recipe.model.codec.build(recipe.grid, grey)
        network = recipe.build(codec).to(device)
        network.codec.prepare()
        one = Stepper(Pretraining(network), Adam(), accumulate=1, precision="fp32", compiled=compiled)
        losses[device, compiled] = [
            float(one.advance(network.prepare(images.to(device), generator(0, "gpu", step)), step=step, factor=1.0))
            for step in range(1, 11)
        ]
        one.check()
    first = losses["cpu", False]
    for key, values in losses.items():
        assert all(abs(a - b) < 2e-3 * a for a, b in zip(first, values)), (name, key, first, values)
    print(name, "equal on CPU, GPU and compiled:", first[-1])
CHECK
for compiled in "" "--compile"; do
  python bench/train_step.py --recipe igpt.s --device cuda --batch 64 --repeats 10 $compiled \
    > "$out/speed-gpu-train-s${compiled#-}.json"
done
python bench/train_step.py --recipe igpt.m --device cuda --batch 32 --repeats 10 --compile > "$out/speed-gpu-train-m.json"
for compiled in "" "--compile"; do
  python bench/isotropic.py --depth 6 --device cuda --batch 128 --repeats 20 $compiled \
    > "$out/speed-gpu-isotropic${compiled#-}.json"
done
python bench/sample.py --recipe igpt.s --device cuda --batch 128 --repeats 3 --precision bf16 > "$out/speed-gpu-sample-s.json"
python bench/probe.py --device cuda --layers 25 --images 20000 --width 512 --repeats 3 > "$out/speed-gpu-probe.json"
python bench/token_dropping.py --device cuda --batch 128 --repeats 20 > "$out/speed-gpu-patchformer.json"
cat "$out"/speed-gpu-*.json
if [ -n "${DATA:-}" ]; then
  study=${STUDY:-studies/paper}
  timeout --signal=INT "${SECONDS_OF_CELLS:-1200}" python -m isopix.cli.main study inductive-bias \
    --data "$DATA" --out "$study" --scale paper --seeds 1 --device cuda || true
  python -m isopix.cli.main study inductive-bias --data "$DATA" --out "$study" --scale paper --seeds 1 --report-only
  python bench/collect.py "$study" study-paper
fi

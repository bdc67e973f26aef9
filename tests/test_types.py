"""The type checker refuses mistakes in what is composed: misspelled methods, wrong arguments and returns."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# file, what stands there once, and the same with a mistake
MISTAKES = [
    ("model/backbone.py", "self.stem(inputs), mask)", "self.stem(inputs, mask), mask)"),
    ("model/backbone.py", "yield from block.attention_weights(", "yield from block.atention_weights("),
    ("model/backbone.py", "self.layers[-1].supports_forward_at", "self.layers[-1].support_forward_at"),
    ("model/network.py", "return self.head.mode(self.backbone(inputs, mask))", "return self.head.mode(mask)"),
    ("model/network.py", "return self.codec.encode(images) if", "return self.codec.encoded(images) if"),
    ("model/spec.py", "self.block.norm.build(width)", "self.block.norm.built(width)"),
    ("objectives/base.py", "self.objective.loss(self.network, batch)", "self.objective.loss(batch)"),
    ("objectives/base.py", "return (head.nll(", "return (head.nlls("),
    ("train/trainer.py", "self.task.make_batch(images, labels,", "self.task.make_batches(images, labels,"),
    ("train/evaluator.py", "spec.start(context)) for spec", "spec.start()) for spec"),
    ("train/evaluator.py", "task.evaluate(images, labels, own)", "task.evaluate(images, own)"),
    ("train/train_step.py", "optimizer.build(task.module.named_parameters())", "optimizer.build()"),
    ("train/train_step.py", "self.optimizer.step()", "self.optimizer.stop()"),
    ("core/registry.py", "_KINDS[noun][kind] = cls", "_KINDS[noun][kind] = kind"),
]


@pytest.mark.integration
def test_the_type_checker_refuses_every_mistake(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "isopix", tmp_path / "isopix", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if (ROOT / ".mypy_cache").is_dir():  # of `make types`: only changed files are checked anew
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / ".mypy_cache")
    places = set()
    for file, right, wrong in MISTAKES:
        path = tmp_path / "isopix" / file
        text = path.read_text()
        assert text.count(right) == 1, f"{file}: {right!r}"
        changed = text.replace(right, wrong)
        line = next(
            n for n, (a, b) in enumerate(zip(text.split("\n"), changed.split("\n"), strict=True), 1) if a != b
        )
        path.write_text(changed)
        places.add((f"isopix/{file}", line))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "MYPYPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "mypy"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {(file, int(line)) for file, line in re.findall(r"^(\S+?):(\d+): error", done.stdout, re.M)}
    assert places - found == set(), done.stdout + done.stderr

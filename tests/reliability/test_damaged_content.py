"""Resuming runs whose newest checkpoint is damaged in its bytes, or in its content with the right hashes."""

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from isopix.api.training import pretrain
from isopix.storage.checkpoint import load_checkpoint
from tests.reliability.test_damage import MEMORY

ROOT = Path(__file__).parents[2]
TINY = ["depth=1", "width=8", "heads=1", "batch_size=4", "checkpoint_every=4", "log_every=1"]
TINY += ["evaluate_images=0", "num_test_images=0", "train.steps=8", "codec.num_colors=4", "rows=4", "cols=4"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two finished runs that differ in the seed alone, as templates."""
    folder = tmp_path_factory.mktemp("templates")
    for name, seed in (("run", 0), ("other", 1)):
        pretrain(
            "igpt.digits", data="digits", limit=20, out=folder / name, overrides=[*TINY, f"train.seed={seed}"]
        )
    return folder


def final_weights(run):
    return load_checkpoint(run / "checkpoints" / "step-00000008").tensors["model"]


def resume_damaged(runs: Path, seeds: range, folder: Path) -> Counter[str]:
    """Damage and resume a copy of the run for each seed, check what happens, and count the kinds."""
    expected, counts = final_weights(runs / "run"), Counter[str]()
    command = [sys.executable, "-m", "tests.reliability.damaged_run"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as server:
        shutil.copytree(runs / "other", folder / "other")
        for seed in seeds:
            run = folder / "run"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(runs / "run", run)
            server.stdin.write(f"{run}\t{seed}\n")
            answers = [server.stdout.readline().rstrip("\n")]
            if not answers[0].lstrip("-").isdigit():
                answers.append(server.stdout.readline().rstrip("\n"))
            assert answers[-1] == "0", f"seed {seed}: crashed with {answers}"
            done, file, *notes = answers[0].split("\t")
            assert done != "raised", f"seed {seed}: {answers[0]}"
            skipped = [each for each in notes if each.startswith("skipped damaged checkpoint")]
            assert len(skipped) == 1, f"seed {seed}: {done} in {file} was not noticed"
            assert file in skipped[0] or "manifest" in skipped[0], f"seed {seed}: {done} in {file}: {skipped}"
            weights = final_weights(run)
            assert all(weights[name].equal(tensor) for name, tensor in expected.items()), f"seed {seed}"
            counts["bytes" if seed % 4 == 0 else "content"] += 1
        server.stdin.close()
    return counts


def report(counts: Counter[str], total: int) -> None:
    sys.stdout.write(
        f"\n{counts.total()} of {total} damaged checkpoints named, and the previous one used: "
        f"{counts['bytes']} with wrong bytes, {counts['content']} with wrong content; 0 crashes\n"
    )


@pytest.mark.integration
def test_a_damaged_checkpoint_is_named_and_the_previous_one_used(runs, tmp_path):
    report(resume_damaged(runs, range(60), tmp_path), 60)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_each_of_a_thousand_damaged_checkpoints_is_named(runs):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        report(resume_damaged(runs, range(1000), Path(folder)), 1000)

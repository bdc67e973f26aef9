"""The record, the tables, the figures and the page of a study, from committed results."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from isopix.plots import style
from isopix.studies.inductive_bias.claims import evaluate_trials
from isopix.studies.inductive_bias.figures import group_trials
from isopix.studies.inductive_bias.results import StudyResult, Trial
from isopix.studies.inductive_bias.study import BiasStudy
from tests.golden.values import check_golden
from tests.unit.reporting.cases import words
from tests.unit.studies.inductive_bias.worlds import pool_probes, probed

COMMITTED = Path(__file__).parents[4] / "bench" / "results" / "study-tiny"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    """The committed tiny study, one of whose trials is missing and one of which failed."""
    folder = tmp_path_factory.mktemp("study")
    shutil.copytree(COMMITTED, folder, dirs_exist_ok=True)
    (folder / "results" / "conv-pix2vec-1-seed-4.json").unlink()
    failed = {"status": "failed", "reason": "out of memory"}
    (folder / "results" / "conv-pix2vec-1-seed-3.json").write_text(json.dumps(failed))
    with pytest.MonkeyPatch.context() as patch:  # coarse figures
        patch.setitem(style._RC_PARAMS, "figure.constrained_layout.use", False)
        patch.setitem(style._RC_PARAMS, "savefig.dpi", 40)
        return BiasStudy.open(folder).write_up()


def test_the_tables_and_the_page_are_golden(found: StudyResult) -> None:
    """With the names of the figures, and of the numbers that each shows."""
    page, folder = words(found.path.read_text()), found.path.parent / "figures"
    names = [each.name for each in sorted(folder.iterdir())]
    parts = {each.stem: sorted(json.loads(each.read_text())) for each in folder.glob("*.json")}
    check_golden("results", "committed study", [str(found).splitlines(), page.splitlines(), names, parts])


def test_placements_of_one_digit_are_not_independent_test_images() -> None:
    done = list(BiasStudy.open(COMMITTED).results().values())
    ignored = [replace(each, test_groups=()) for each in done]
    widths = []
    for trials in (done, ignored):
        contrast = evaluate_trials(trials)["grid4"][0].contrasts[1]
        assert contrast.unit == "points"
        widths.append(contrast.interval[1] - contrast.interval[0])
    assert widths[0] > widths[1]


def test_groups_are_means_over_the_seeds_of_an_architecture_in_order_of_appearance() -> None:
    def trial(block: str, seed: int, loss: float, test: list[float]) -> Trial:
        return Trial(block, "pix2vec", 1, seed, loss, {"mean": pool_probes(probed(test))})

    trials = [trial("mixer", 0, 2.0, [0.2, 0.4]), trial("conv", 0, 1.0, [0.1, 0.2])]
    trials.append(trial("mixer", 1, 3.0, [0.4, 0.6]))
    mixer, conv = group_trials(trials, "mean")
    assert (mixer.block, conv.block, conv.loss) == ("mixer", "conv", (1.0, 0.0, 1))
    assert mixer.loss == (2.5, pytest.approx(0.5**0.5), 2)
    assert mixer.accuracy.mean == pytest.approx(0.5)
    assert [layer.mean for layer in mixer.layers] == pytest.approx([0.3, 0.5])

"""The page is one file that needs nothing else, shows controls beside results, and hides no gap."""

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from isopix.probe.config import ProbeConfig
from isopix.probe.linear import RidgeProbe
from isopix.probe.results import ConcatResult
from isopix.recipes import registry, tiny
from isopix.report import page
from isopix.report.summary import summary
from tests.unit.report.cases import bare, drawing, evidence, probe, records, regression, score, whole

VOID = {"meta", "img", "link", "br", "use"}


class Outline(HTMLParser):
    """Elements by name with their attributes; asserts that every element is closed in its place."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of an autoregressive and a masked run."""
    folder = tmp_path_factory.mktemp("runs")
    return page.build([whole(folder / "ar"), whole(folder / "bert", tiny.digits_bert())])


def words(text: str) -> str:
    plain = re.sub(r"<style>.*?</style>|<[^>]*>", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", plain.replace("&nbsp;", " ").replace("\u00a0", " "))


def test_the_page_is_well_formed(both: str) -> None:
    Outline(both)


def test_the_page_needs_no_network_and_no_script(both: str) -> None:
    outline = Outline(both)
    assert all((image["src"] or "").startswith("data:image/png;base64,") for image in outline.named("img"))
    assert not outline.named("script")
    assert not outline.named("link")
    assert "http://" not in both
    assert "https://" not in both
    assert "@import" not in both


def test_every_picture_is_described(both: str) -> None:
    outline = Outline(both)
    bands = [image for image in outline.named("img") if image.get("class") == "band"]
    assert all(image["alt"] for image in outline.named("img") if image not in bands)
    figures = [svg for svg in outline.named("svg") if svg.get("role") == "img"]
    assert figures
    assert all(svg["aria-label"] for svg in figures)


def test_every_id_is_unique(both: str) -> None:
    ids = re.findall(r'\bid="([^"]*)"', both)
    assert len(ids) == len(set(ids))


def test_controls_stand_beside_every_run(both: str) -> None:
    text = words(both)
    for name in ("untrained", "raw pixels", "shuffled labels", "one class"):
        assert name in text


def test_names_cannot_write_into_the_page(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    run = whole(tmp_path / name)
    probe(run, evidence(), data=name)
    drawing(run, "samples", data=name)
    run.environment.write_text(json.dumps({"device": name, "command": [name], name: name}))
    text = page.build([run, whole(tmp_path / "other")])
    assert "<img src=x" not in text
    assert "&lt;img src=x" in text


def test_what_is_missing_names_the_command_that_makes_it(tmp_path: Path) -> None:
    run = bare(tmp_path / "a run")
    text = words(page.build([run]))
    for verb in ("sample", "complete", "probe", "resume"):
        assert f"isopix {verb} &#39;{run.path}&#39;" in text


def test_a_masked_run_is_not_asked_for_samples(tmp_path: Path) -> None:
    text = words(page.build([bare(tmp_path / "run", tiny.digits_bert())]))
    assert "isopix reconstruct" in text
    assert "isopix sample" not in text
    assert "cannot paint pixel by pixel" in text


def test_an_autoregressive_run_is_not_asked_for_reconstructions(tmp_path: Path) -> None:
    text = words(page.build([bare(tmp_path / "run")]))
    assert "isopix reconstruct" not in text
    assert "has nothing hidden to reconstruct" in text


def test_the_newest_pictures_are_shown_and_older_ones_counted(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    for step in (10, 20, 30):
        drawing(run, "samples", step)
    text = words(page.build([run]))
    assert "Step 30, seed 3" in text
    assert "Step 20" not in text
    assert "2 of earlier steps are in" in text


def test_damaged_files_are_named_on_the_page(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    (run.probes / "probe.json").write_text("{")
    text = words(page.build([run]))
    assert "Files that could not be read: probe.json" in text
    assert "isopix probe" in text


def test_a_recipe_of_unknown_parts_has_a_page(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    values = json.loads(run.recipe.read_text()) | {
        "objective": {"kind": "rotation"},
        "block": {"kind": "axial"},
    }
    run.recipe.write_text(json.dumps(values))
    text = words(page.build([run]))
    assert "The objective is “rotation”" in text
    assert "drawn from nothing" in text


def test_a_run_over_bytes_has_a_page_without_a_palette(tmp_path: Path) -> None:
    run = bare(tmp_path / "run", registry.find("isotropic.tiny-mixer-fourier-3"))
    run.log.write_text("".join(json.dumps(each) + "\n" for each in records()))
    drawing(run, "reconstructions")
    text = words(page.build([run]))
    assert "3 mixer blocks of width 32" in text
    assert "nats a hidden sub-pixel" in text
    assert "all 256 values of a hidden sub-pixel the same chance: ln 256 nats" in text
    assert "the mauve pixels are hidden; the model names the likeliest value of each hidden sub-pixel" in text
    assert "drawn back" not in text
    assert "alette" not in text


def test_a_regressions_page_promises_no_first_loss(tmp_path: Path) -> None:
    text = words(page.build([whole(tmp_path / "run", regression())]))
    assert "nats a hidden sub-pixel" in text
    assert "the same chance" not in text


def test_commands_are_told_once_each(tmp_path: Path) -> None:
    text = page.build([whole(tmp_path / "run")])
    assert text.count("isopix pretrain &#39;a b&#39;") == 1


def test_commands_stand_under_the_folder_that_they_were_typed_in(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    made = {"folder": "/data/my runs", "commit": "abc-dirty", "command": ["isopix", "pretrain", "igpt.tiny"]}
    palette = {"file": "/data/p.npz", "source": "k-means on photos"}
    run.environment.write_text(json.dumps(made | {"palette": palette}))
    probe(run, evidence(), folder="/data/my runs", command=["isopix", "probe", "my run"])
    (block,) = re.findall(r"<pre>(.*?)</pre>", page.build([run]), re.DOTALL)
    assert html.unescape(block).splitlines()[:5] == [
        "# isopix at commit abc-dirty",
        "# palette /data/p.npz: k-means on photos",
        "cd '/data/my runs'",
        "isopix pretrain igpt.tiny",
        "isopix probe 'my run'",
    ]


def test_a_comment_of_the_commands_stays_one_line(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    palette = {"file": "p.npz\nrm -r /", "source": "x"}
    run.environment.write_text(json.dumps({"command": ["isopix"], "palette": palette}))
    (block,) = re.findall(r"<pre>(.*?)</pre>", page.build([run]), re.DOTALL)
    assert "# palette p.npz rm -r /: x\n" in block


def test_the_page_says_how_a_probe_was_made(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    refit = replace(score(1, 0.61), lr=3.0, l2=None)
    config = ProbeConfig(features="residual", refit_on_validation=True)
    probe(run, replace(evidence(), config=config, refit=refit), limit=400)
    text = words(page.build([run]))
    assert "1,437 train, 180 validation, 180 test images, the first 400 of each split" in text
    assert "Read: features residual, pool mean, start token; logistic regression (L-BFGS), fitted" in text
    assert (
        "Refit on all 1,617 training and validation images at the learning rate 3, layer 1 has a test "
        "accuracy of 61.0 % (59.0 to 63.0 %)."
    ) in text
    assert "1 refit on train + validation61.0 %" in text


def test_reports_without_concatenation_and_refit_are_read(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    [path] = run.probes.glob("*.json")
    values = json.loads(path.read_text())
    for part in (values["network"], *values["baselines"].values()):
        del part["concat"]
    del values["refit"], values["config"]["refit_on_validation"], values["config"]["layer"]
    path.write_text(json.dumps(values))
    text = page.build([run])
    assert "untrained" in text
    assert "could not be read" not in text


def test_the_page_names_method_masks_and_concatenated_layers(tmp_path: Path) -> None:
    run, found = whole(tmp_path / "run"), evidence()
    concat = ConcatResult((0, 1, 2), replace(found.network.best, test_accuracy=0.77))
    config = ProbeConfig(method=RidgeProbe(), mask_ensemble=5, concat=5)
    probe(run, replace(found, network=replace(found.network, concat=concat), config=config))
    text = words(page.build([run]))
    assert "start token, majority vote over 5 masks; ridge regression, fitted to training images" in text
    assert "layers 0–2 concatenated77.0 %" in text
    assert text.count("(ridge regression, majority vote over 5 masks)") >= 2  # the headline and the table


def test_the_page_says_which_of_several_probes_is_in_the_headline(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    assert "the one of the headline" not in words(page.build([run]))
    other = replace(evidence(trained=(0.9, 0.1)), config=ProbeConfig(features="residual"))
    probe(run, other, name="later", written="9")
    text = words(page.build([run]))
    assert text.count("the one of the headline") == 1
    first, second = text.index("Read: features normed"), text.index("Read: features residual")
    assert first < text.index("the one of the headline") < second
    assert "50.0 % of test images at layer 1;" in text


def test_probes_that_cannot_be_compared_share_no_row_and_no_figure(tmp_path: Path) -> None:
    runs = [whole(tmp_path / name) for name in ("a", "b")]
    assert "rings mark the layers" in page.build(runs)
    probe(runs[1], evidence(), limit=400)
    gathered = page.read(runs)
    names = [row.name for row in summary(gathered)]
    half = ["untrained", "shuffled labels", "raw pixels", "one class"]
    assert names == ["a", *half, "b", *half]
    assert "rings mark the layers" not in page.render(gathered)
    assert "2 runs, probed with different images, which are not to be compared." in words(
        page.render(gathered)
    )


def test_likely_reasons_stand_under_a_network_that_learnt_nothing(tmp_path: Path) -> None:
    run = whole(tmp_path / "run", found=evidence(trained=(0.3, 0.31)))
    told = "The best layer is not clearly above that of the untrained network; likely reasons: "
    assert words(page.build([run])).count(told) == 1
    assert words(page.build([run, whole(tmp_path / "other")])).count(told) == 1


def test_equal_folder_names_are_told_apart_by_their_parents(tmp_path: Path) -> None:
    runs = [whole(tmp_path / parent / "run") for parent in ("a", "b")]
    text = words(page.build(runs))
    assert "a/run and b/run" in text


def test_equal_runs_give_equal_pages(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    assert page.build([run]) == page.build([run])


def test_a_run_given_twice_is_refused(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    with pytest.raises(ValueError, match="each run once"):
        page.build([run, run])


def test_no_run_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a run folder"):
        page.build([])


def test_the_headline_of_a_limited_run_keeps_its_recipe(tmp_path: Path) -> None:
    recipe = replace(tiny.digits(), depth=1)
    assert "1 block of width 64" in words(page.build([bare(tmp_path / "run", recipe)]))

"""Pages of runs in every state: their text is as in `golden/`, and laws hold for all; the model card."""

import base64
import html
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from PIL import Image

from isopix.core.version import __version__
from isopix.data.dataset import DataConfig
from isopix.generate.results import SampleResult, SamplingConfig
from isopix.probing.config import ProbeConfig
from isopix.recipes import igpt
from isopix.reporting.page import read_runs, report_page
from isopix.reporting.run_record import read_run
from isopix.reporting.section import data_url, result_panel
from isopix.reporting.summary import headline, model_card
from isopix.runs.pretrain import save_data_sample
from isopix.storage.result import Result
from isopix.storage.run_folder import RunFolder
from isopix.verbs.report import result_kinds
from tests.unit.reporting.cases import (
    bare,
    baselines,
    call,
    dataset,
    evidence,
    fine_tuned,
    imported,
    records,
    regression,
    whole,
    words,
    write_log,
)

GOLDEN = Path(__file__).parent / "golden"
VOID = {"meta", "img", "link", "br", "use"}
EVIL = "'\"><script>&\u202e"


def page_of(*runs: RunFolder) -> str:
    return report_page(read_runs(runs, result_kinds())).html()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The page of each kind of run, and of several."""
    folder = tmp_path_factory.mktemp("runs")
    ar = whole(folder / "ar")
    bert = whole(folder / "bert", igpt.digits_bert(), evidence((0.3, 0.6, 0.5)), started="2026-01-01")
    tuned = fine_tuned(folder / "tuned")
    found = {
        "ar": page_of(ar),
        "bert": page_of(bert),
        "tuned": page_of(tuned),
        "imported": page_of(imported(folder / "imported")),
        "regression": page_of(whole(folder / "regression", regression())),
        "empty": page_of(bare(folder / "empty")),
        "several": page_of(ar, bert, tuned),
        "card": card(ar.path),
        "imported-card": card(folder / "imported"),
        "tuned-card": card(tuned.path),
        "transformers-card": card(ar.path, "transformers"),
    }
    return {name: page.replace(str(folder), "FOLDER") for name, page in found.items()}


NAMES = ("ar", "bert", "tuned", "imported", "regression", "empty", "several")


@pytest.mark.parametrize("name", [*NAMES, "card", "imported-card", "tuned-card", "transformers-card"])
def test_the_text_of_a_page_is_golden(pages: Mapping[str, str], name: str) -> None:
    """`ISOPIX_GOLDEN=1 pytest ...` writes the texts, for a look at their difference."""
    text = pages[name] if "card" in name else words(pages[name])
    found = text.replace(__version__, "VERSION") + "\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("ISOPIX_GOLDEN"):
        file.write_text(found)
    assert found == file.read_text()


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
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_needs_no_network_and_no_script_and_names_the_folder_of_data_alone(
    pages: Mapping[str, str], name: str
) -> None:
    outline = Outline(pages[name])
    assert not outline.named("script") + outline.named("link")
    assert all(str(image["src"]).startswith("data:image/png;base64,") for image in outline.named("img"))
    assert all(str(link["href"]).startswith(("data:", "#")) for link in outline.named("a"))
    assert all(rule.startswith("#") for rule in re.findall(r"url\(([^)]*)\)|@import", pages[name]))
    text = html.unescape(pages[name]).replace("--data '/home/someone/a b'", "")
    assert not re.search("/home/someone|/data/imagenet", text)


def test_a_page_of_a_long_log_is_small_and_its_curves_have_their_ends_and_extremes(tmp_path: Path) -> None:
    run, losses = whole(tmp_path), {step: 2 + step % 7 / 70 for step in range(1, 20_001)}
    losses |= {1: 2.041, 7777: 9.5, 15_555: 0.25, 20_000: 2.043}
    train = {"kind": "train", "images": 8, "seconds": 1.0}
    noted = [{"kind": "note", "step": step, "text": "its update was skipped"} for step in losses]
    write_log(run, [*({**train, "step": step, "loss_nats": loss} for step, loss in losses.items()), *noted])
    page = page_of(run)
    assert len(page) < 2**20
    [numbers] = re.findall(r'="[^"]*loss[^"]*\.json" href="data:application/json;base64,([^"]+)"', page)
    shown = {each["step"]: each["loss_nats"] for each in json.loads(base64.b64decode(numbers))}
    assert {step: shown.get(step) for step in (1, 7777, 15_555, 20_000)}.items() <= losses.items()


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_unique_and_pictures_are_described(pages: Mapping[str, str], name: str) -> None:
    outline = Outline(pages[name])
    for names in (
        [attributes["id"] for _, attributes in outline.elements if "id" in attributes],
        [link["download"] for link in outline.named("a") if "download" in link],
    ):
        assert len(set(names)) == len(names)
    assert all(each.get("aria-label") or each.get("aria-hidden") for each in outline.named("svg"))
    assert all("alt" in image for image in outline.named("img"))
    assert all("scope" in each for each in outline.named("th"))


def test_text_of_users_adds_no_elements_and_no_attributes(tmp_path: Path) -> None:
    pages = []
    for number, text in enumerate((EVIL, "text")):
        found = evidence(data=text, warnings=(text,))
        recipe = replace(igpt.digits(), name=text, data=DataConfig(source=text, rows=8, cols=8))
        run = whole(tmp_path / f"{number}", recipe, found, device=text)
        save_data_sample(run, replace(dataset(10), classes=(text,) * 10))
        pages.append(page_of(run, bare(tmp_path / f"{number} bare" / text)))
    evil, plain = ([(tag, [*attributes]) for tag, attributes in Outline(page).elements] for page in pages)
    assert evil == plain
    assert "\u202e" not in pages[0]
    assert "&lt;script&gt;" in pages[0]


def test_a_picture_is_shown_with_its_caption(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    before = len(Outline(page_of(run)).named("img"))
    path = run.samples / "sample.png"
    Image.new("RGB", (64, 32)).save(path)
    SampleResult(call=call("sample"), step=100, seed=3, count=4, sampling=SamplingConfig()).saved(path)
    page = page_of(run)
    images = Outline(page).named("img")
    assert len(images) == before + 1
    assert [each for each in images if each.get("width") == "32" and "4 samples" in str(each["alt"])]
    assert page.index("4 samples") < page.rindex("Runs and baselines")


@pytest.mark.parametrize(("pixels", "size"), [(13400, 0), (1, 2**40)])
def test_a_picture_that_is_too_large_is_a_note(tmp_path: Path, pixels: int, size: int) -> None:
    Image.new("1", (pixels, pixels)).save(path := tmp_path / "sample.png")
    os.truncate(path, size or path.stat().st_size)
    [note] = result_panel(Result(call=call("sample")).saved(path), "a").notes
    assert re.match(r"Note: the picture sample\.png is not shown: .*(pixels|bytes).* limit", note)


def test_each_of_several_pictures_of_a_folder_is_its_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        path = tmp_path / f"{name}.png"
        Image.new("RGB", (4, 4)).save(path)
        assert Result(call=call("sample")).saved(path).pictures == [path]


def test_neighbors_show_near_duplicates_and_outliers(tmp_path: Path) -> None:
    for name in ("outliers", "duplicates"):
        Image.new("RGB", (4, 4)).save(tmp_path / f"{name}.png")
    result = Result(call=call("neighbors")).saved(tmp_path)
    assert [each.name for each in result.pictures] == ["duplicates.png", "outliers.png"]


def test_a_notebook_shows_figures_or_else_the_pictures_that_were_written(tmp_path: Path) -> None:
    assert evidence()._repr_html_().count("<img") == 1
    Image.new("RGB", (4, 4)).save(tmp_path / "surprise.png")
    [tag] = Outline(Result(call=call("score")).saved(tmp_path)._repr_html_()).named("img")
    assert tag["src"] == data_url((tmp_path / "surprise.png").read_bytes())


def test_equal_names_have_the_names_of_their_parents(tmp_path: Path) -> None:
    runs = [bare(tmp_path / parent / "run") for parent in ("one", "other")]
    assert list(read_runs(runs, {})) == ["one/run", "other/run"]
    with pytest.raises(ValueError, match="one was given twice"):
        read_runs([runs[0]] * 2, {})


def test_a_verb_of_a_plugin_needs_no_edit(tmp_path: Path) -> None:
    """A result whose class is handed in is a section with its tables."""
    run = whole(tmp_path / "run")
    found = evidence(call={**evidence().call, "verb": "lda"})
    found.saved(run.probes / "lda.json")
    kinds = {**result_kinds(), "lda": [type(found)]}
    page = report_page(read_runs([run], kinds)).html()
    assert words(page).count("* best on validation") == 2
    assert page.count('<tr class="run"><th scope="row">1 *</th>') == 2
    assert words(page_of(run)).count("* best on validation") == 1


def card(run: Path, library: str = "isopix") -> str:
    return model_card(read_run(RunFolder(run)), name="someone/model", library=library).replace("\u00a0", " ")  # type: ignore[arg-type]


def test_a_classifier_has_the_layer_of_its_own_pool(tmp_path: Path) -> None:
    run = fine_tuned(tmp_path / "tuned", "max")
    evidence((0.2, 0.1, 0.3), config=ProbeConfig(pool="max")).saved(run.probes / "own.json")
    evidence((0.9, 0.1, 0.1), call=call("probe", "2030")).saved(run.probes / "mean.json")
    assert "layer=2" in card(run.path)
    record = read_run(run)
    assert headline({"run": record})[0].replace("\u00a0", " ") == "Probe test accuracy: 30.0%"
    two, _ = headline({"run": record, "other": replace(record, results=[])})
    assert two.replace("\u00a0", " ") == "Probe test accuracy (run): 30.0%"


def test_transformers_supports_autoregressive_models_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="transformers supports autoregressive models"):
        card(whole(tmp_path / "bert", igpt.digits_bert()).path, "transformers")


def test_no_name_or_command_leaves_its_place_in_the_card(tmp_path: Path) -> None:
    """Parsed by another program, the card has the same blocks, whatever its texts are."""
    blocks = []
    for text in ("plain", "\n```\n~~~~\n# Title\n\n<script>\n"):
        run = whole(tmp_path / f"run-{len(blocks)}", None, evidence(label=text), command=["isopix", text])
        write_log(run, [*records(), {**baselines(), "nats": {text: 2.0}}])
        blocks.append([each.type for each in MarkdownIt().enable("table").parse(card(run.path))])
    assert blocks[0] == blocks[1]


def test_markup_of_users_is_escaped(tmp_path: Path) -> None:
    recipe = replace(igpt.digits(), data=DataConfig(source="a|b<i>", rows=8, cols=8))
    text = card(whole(tmp_path / "run", recipe, evidence(data="<b>x</b>")).path)
    assert "Training images: a\\|b\\<i\\>" in text
    assert "<b>" not in text
    assert "<i>" not in text

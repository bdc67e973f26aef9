"""The page is one self-contained file that shows baselines next to results and names what is missing."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import isopix
from isopix.recipes import igpt, registry
from isopix.reporting import page
from tests.unit.reporting.cases import bare, drawing, evidence, probe, records, regression, whole, words

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
    return page.build([whole(folder / "ar"), whole(folder / "bert", igpt.digits_bert())])


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


def test_every_run_has_its_baselines(both: str) -> None:
    text = words(both)
    for name in ("untrained", "raw pixels", "shuffled labels", "majority class"):
        assert name in text


def test_the_runs_come_before_their_differences(both: str) -> None:
    assert 0 < both.index(">Runs and baselines<") < both.index(">Differences<")


def test_the_environment_names_its_numbers(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    found = {"images": {"train": 700, "test": 1350}, "majority": 0.10222222222222223, "data": "1ab03f"}
    run.environment.write_text(json.dumps(found))
    text = words(page.build([run])).replace("\u00a0", " ")
    assert "majority class of train10.2 % of 1,350 test images" in text
    assert "data (hash of images and splits)" in text


def test_the_recipe_of_every_run_is_named(both: str) -> None:
    assert "Recipes: igpt.digits (ar), igpt.digits_bert (bert)." in words(both)


def test_names_cannot_write_into_the_page(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    run = whole(tmp_path / name)
    probe(run, evidence(), data=name)
    drawing(run, "sample", data=name)
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
    text = words(page.build([bare(tmp_path / "run", igpt.digits_bert())]))
    assert "isopix reconstruct" in text
    assert "isopix sample" not in text


def test_an_autoregressive_run_is_not_asked_for_reconstructions(tmp_path: Path) -> None:
    text = words(page.build([bare(tmp_path / "run")]))
    assert "isopix reconstruct" not in text


def test_the_newest_pictures_are_shown_and_older_ones_counted(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    for step in (10, 20, 30):
        drawing(run, "sample", step)
    text = words(page.build([run]))
    assert "step 30, seed 3" in text
    assert "step 20" not in text
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
    assert "objective.kindrotation" in text.replace(" ", "")
    assert "8 samples; step 100, seed 3" in text
    assert "Files that could not be read: recipe.json: " in text


def test_a_run_over_bytes_has_a_page_without_a_palette(tmp_path: Path) -> None:
    run = bare(tmp_path / "run", registry.find("isotropic.tiny-mixer-fourier-3"))
    run.log.write_text("".join(json.dumps(each) + "\n" for each in records()))
    drawing(run, "reconstruct")
    text = words(page.build([run]))
    assert "depth × width3 × 32" in text
    assert "MLP-Mixer" in text
    assert "nats per masked sub-pixel" in text
    assert "Uniform prediction of 256 values: ln 256 = 5.545 nats per masked sub-pixel" in text
    assert "masked positions in gray-violet. Prediction: the most likely value of each masked code" in text
    assert "shown decoded" not in text
    assert "alette" not in text


def test_a_regression_has_no_uniform_prediction(tmp_path: Path) -> None:
    text = words(page.build([whole(tmp_path / "run", regression())]))
    assert "nats per masked sub-pixel" in text
    assert "niform prediction" not in text


def test_every_command_is_listed_once(tmp_path: Path) -> None:
    text = page.build([whole(tmp_path / "run")])
    assert text.count("isopix pretrain &#39;a b&#39;") == 1


def test_commands_are_listed_under_their_working_directory(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    made = {"folder": "/data/my runs", "commit": "abc-dirty", "command": ["isopix", "pretrain", "igpt.tiny"]}
    palette = {"file": "/data/p.npz", "source": "k-means on photos"}
    run.environment.write_text(json.dumps(made | {"codec": {"palette": palette}}))
    probe(run, evidence(), folder="/data/my runs", command=["isopix", "probe", "my run"])
    (block,) = re.findall(r"<pre[^>]*>(.*?)</pre>", page.build([run]), re.DOTALL)
    assert html.unescape(block).splitlines()[:5] == [
        "# isopix at commit abc-dirty",
        "# palette p.npz: k-means on photos",
        "cd 'my runs'",
        "isopix pretrain igpt.tiny",
        "isopix probe 'my run'",
    ]


def test_the_page_has_no_absolute_path(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    command = ["isopix", "pretrain", "igpt.tiny", "--data", "/home/me/photos", "palette_file=/home/me/p.npz"]
    made = {"folder": "/home/me/work", "command": command}
    origin = {"run": "/home/me/work/runs/first", "step": 20}
    recipe = json.loads(run.recipe.read_text())
    recipe["data"]["source"] = "/home/me/photos"
    run.recipe.write_text(json.dumps(recipe))
    run.environment.write_text(
        json.dumps(made | {"pretrained": origin, "palette": {"file": "/home/me/p.npz"}})
    )
    text = page.build([run])
    assert "/home/me" not in text
    assert "run first, step 20" in text
    assert "isopix pretrain igpt.tiny --data photos palette_file=p.npz" in text


def test_a_comment_of_the_commands_stays_one_line(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    palette = {"file": "p.npz\nrm -r /", "source": "x"}
    run.environment.write_text(json.dumps({"command": ["isopix"], "codec": {"palette": palette}}))
    (block,) = re.findall(r"<pre[^>]*>(.*?)</pre>", page.build([run]), re.DOTALL)
    assert "# palette p.npz rm -r /: x\n" in block


def test_equal_folder_names_are_shown_with_their_parents(tmp_path: Path) -> None:
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


def test_depth_and_width_are_on_the_page(tmp_path: Path) -> None:
    recipe = igpt.digits().updated(
        depth=1,
    )
    assert "depth × width1 × 64" in words(page.build([bare(tmp_path / "run", recipe)]))


def test_the_cost_of_pre_training_is_on_the_page(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    seconds = max(each.get("seconds", 0) for each in records())
    images = 800  # by the log
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page.build([run])))
    assert facts["images seen"] == f"{images:,}"
    assert facts["images per second"] == f"{images / seconds:,.3g}"
    plan = isopix.plan("igpt.digits")
    number, unit = facts["computation"].split()
    assert float(number) * {"GFLOP": 1e9, "TFLOP": 1e12}[unit] == pytest.approx(
        images * plan.training_flops, rel=5e-3
    )


@pytest.mark.parametrize(
    ("device", "joules", "names", "values"),
    [
        ("cpu (x)", 9000, ("memory of the process", "of the machine&#39;s processors"), "2.5 Wh"),
        ("cuda:0 (x)", 4.5e9, ("GPU memory", "of the GPU"), "1.25e+03 kWh"),
    ],
)
def test_memory_and_energy_are_on_the_page_where_all_steps_counted_them(
    tmp_path: Path, device: str, joules: float, names: tuple[str, str], values: str
) -> None:
    run = whole(tmp_path / "run")
    lines = [json.loads(line) for line in run.log.read_text().splitlines()]
    train = [each for each in lines if each["kind"] == "train"]
    for number, each in enumerate(train, 1):
        each |= {"peak_memory_bytes": 3 * 2**20 * number, "energy_joules": joules * number / len(train)}
    environment = json.loads(run.environment.read_text())
    run.environment.write_text(json.dumps({**environment, "device": device}))
    memory, energy = names

    def facts() -> dict[str, str]:
        run.log.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page.build([run])))

    assert facts()[f"peak {memory}"] == f"{3 * len(train):.1f} MiB"
    assert facts()[f"energy {energy}"] == values
    del train[0]["energy_joules"]  # begun on another machine
    assert f"energy {energy}" not in facts()
    assert "energy" not in " ".join(facts())

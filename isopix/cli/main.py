"""`isopix`: the table of contents of the command line. Verbs are imported when they are used, so help is
instant.
"""

import os
import sys

from cyclopts import App, CycloptsError

from isopix import __version__
from isopix.cli.errors import complaint

# verb: (module:function, one line of help). The order is the order of a first day's work.
VERBS = {
    "demo": (
        "isopix.cli.demo:demo",
        "Pre-train, probe, sample and report on bundled digits in a few minutes.",
    ),
    "recipe": (
        "isopix.cli.recipe:app",
        "List the recipes; show one with every setting and where it comes from.",
    ),
    "plan": ("isopix.cli.plan:plan", "Parameters, FLOPs, memory and time of a recipe; writes nothing."),
    "palette": ("isopix.cli.palette:app", "Fit, import and inspect colour palettes."),
    "pretrain": ("isopix.cli.pretrain:pretrain", "Pre-train a recipe on images; makes a run folder."),
    "resume": ("isopix.cli.resume:resume", "Go on with an interrupted run, bit for bit."),
    "search-lr": ("isopix.cli.search_lr:search_lr", "Search for a learning rate, from large to small."),
    "probe": ("isopix.cli.probe:probe", "Tell classes by every layer, with controls."),
    "analyse": (
        "isopix.cli.analyze:analyse",
        "What a network looks at: attention, positions, filters, inductive biases.",
    ),
    "finetune": (
        "isopix.cli.finetune:finetune",
        "Train a run on labelled images to tell their classes.",
    ),
    "evaluate": (
        "isopix.cli.evaluate:evaluate",
        "Judge a fine-tuned run on test images, under several masks if it has any.",
    ),
    "lowdata": ("isopix.cli.low_data:lowdata", "Error with few labels: of features, and fine-tuned."),
    "sample": ("isopix.cli.sample:sample", "Draw images from a run."),
    "complete": ("isopix.cli.complete:complete", "Complete images from their first rows."),
    "reconstruct": ("isopix.cli.reconstruct:reconstruct", "Fill in masked pixels of images."),
    "convert": ("isopix.cli.convert:app", "Other people's Image GPTs in, ours out."),
    "publish": ("isopix.cli.publish:publish", "Put the model of a run on the Hugging Face hub."),
    "verify": ("isopix.cli.verify:verify", "Check a model's files, and its loss beside the published one."),
    "study": ("isopix.cli.study:app", "Train, probe and compare many networks that differ in one thing."),
    "report": ("isopix.cli.report:report", "One self-contained HTML page about a run."),
}

# Before torch is loaded: threads that spin while waiting crawl once another program wants their core.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = App(
    name="isopix",
    help="Pre-train image models by predicting pixels, measure what they have learnt, and show it.",
    version=__version__,
    default_parameter=None,
    print_error=False,
    exit_on_error=False,
    suppress_keyboard_interrupt=False,
)
for place, (verb, (target, text)) in enumerate(VERBS.items()):
    # The table of contents needs no import; the page of one verb is its own docstring.
    chosen = sys.argv[1:2] == [verb]
    app.command(target, name=verb, help=None if chosen else text, sort_key=place)


def main() -> None:
    """Run one command; users' errors end in one line and code 2, failures in one line and code 1."""
    try:
        app(sys.argv[1:])
    except CycloptsError as error:
        _stop(error, complaint(error), 2)
    except ValueError as error:
        _stop(error, str(error), 2)
    except OSError as error:
        named = error.filename is not None and error.strerror
        _stop(error, f"{error.filename}: {error.strerror}" if named else str(error), 1)
    except RuntimeError as error:
        _stop(error, str(error), 1)
    except KeyboardInterrupt as error:
        _stop(error, str(error) or "interrupted", 130)


def _stop(error: BaseException, message: str, code: int) -> None:
    """The first line alone: ours have no other, those of libraries have thousands."""
    if os.environ.get("ISOPIX_DEBUG"):
        raise error
    first = next(iter(message.strip().splitlines()), type(error).__name__)
    sys.stderr.write(f"isopix: {first}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()

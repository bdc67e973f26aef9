"""`isopix`: the table of contents of the command line. Verbs are imported when they are used, so help is
instant.
"""

import os
import sys

from cyclopts import App

from isopix import __version__

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
    "probe": ("isopix.cli.probe:probe", "Linear probe of every layer, with controls."),
    "sample": ("isopix.cli.sample:sample", "Draw images from a run."),
    "complete": ("isopix.cli.complete:complete", "Complete images from their first rows."),
    "reconstruct": ("isopix.cli.reconstruct:reconstruct", "Fill in masked pixels of images."),
    "report": ("isopix.cli.report:report", "One self-contained HTML page about a run."),
}

# Before torch is loaded: threads that spin while waiting crawl once another program wants their core.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = App(
    name="isopix",
    help="Pre-train image models by predicting pixels, measure what they have learnt, and show it.",
    version=__version__,
    default_parameter=None,
)
for place, (verb, (target, text)) in enumerate(VERBS.items()):
    # The table of contents needs no import; the page of one verb is its own docstring.
    chosen = sys.argv[1:2] == [verb]
    app.command(target, name=verb, help=None if chosen else text, sort_key=place)


def main() -> None:
    """Run one command; users' errors end in one line and code 2, failures in one line and code 1."""
    try:
        app(sys.argv[1:])
    except ValueError as error:
        _stop(error, 2)
    except (RuntimeError, OSError) as error:
        _stop(error, 1)
    except KeyboardInterrupt:
        _stop("interrupted", 130)


def _stop(error: object, code: int) -> None:
    if os.environ.get("ISOPIX_DEBUG") and isinstance(error, BaseException):
        raise error
    sys.stderr.write(f"isopix: {error}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()

"""`isopix recipe`: list recipes and show their settings."""

from itertools import groupby
from json import dumps

from cyclopts import App

from isopix.cli.console import Json, Plugins, SettingsFile, load_plugins, say, show_entries, show_json
from isopix.recipes import registry
from isopix.recipes.registry import UNCHANGED, Setting

app = App(
    name="recipe",
    help="""List recipes; show the settings of one, what each means and where it comes from.

Example: isopix recipe show igpt.tiny
""",
)


@app.command(name="list")
def list_recipes(*, plugin: Plugins = None, json: Json = False) -> None:
    """List the recipes by paper, smallest first; large families as one name pattern.

    Example: isopix recipe list
    """
    load_plugins(plugin)
    lines = registry.listing()
    if json:
        show_json(lines)
    else:
        show_entries("Recipes", lines.items())


@app.command(name="show")
def show_recipe(
    recipe: str, *settings: str, file: SettingsFile = None, plugin: Plugins = None, json: Json = False
) -> None:
    """Show every setting of a recipe, overrides applied: its value, what it means, and where a changed value
    comes from.

    Example: isopix recipe show igpt.tiny depth=4

    Parameters
    ----------
    recipe
        Name from `isopix recipe list`.
    settings
        Settings to override, as name=value.
    """
    load_plugins(plugin)
    found = registry.settings(registry.resolve(recipe, file=file, assignments=settings))
    if json:
        show_json({each.path: each._asdict() for each in found})
        return
    say("On the command line the end of a name is enough: depth=4 is model.depth=4.")
    for group, section in groupby(found, key=lambda each: each.path.partition(".")[0]):
        say("")
        show_entries(group, map(_entry, section))


def _entry(setting: Setting) -> tuple[str, str]:
    """Return `name=value` with the source of a changed value, and the meaning."""
    value = f"{setting.path}={dumps(setting.value)}".replace('"', "")
    if setting.source == UNCHANGED:
        return value, setting.meaning
    return f"{value}  ({setting.source}; recipe: {dumps(setting.default)})".replace('"', ""), setting.meaning

"""`isopix recipe`: list recipes and show their settings."""

from cyclopts import App

from isopix.cli.console import Json, Plugins, SettingsFile, load_plugins, show_json, show_table
from isopix.core.config import to_dict
from isopix.recipes import registry

app = App(
    name="recipe",
    help="""List recipes; show the settings of one and where each comes from.

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
        show_table("Recipes", ["name", "description"], list(lines.items()))


@app.command(name="show")
def show_recipe(
    recipe: str, *settings: str, file: SettingsFile = None, plugin: Plugins = None, json: Json = False
) -> None:
    """Show every setting of a recipe, overrides applied, and where its value comes from.

    Example: isopix recipe show igpt.tiny depth=4

    Parameters
    ----------
    recipe
        Name from `isopix recipe list`.
    settings
        Settings to override, as name=value.
    """
    load_plugins(plugin)
    resolved = registry.resolve(recipe, file=file, assignments=settings)
    if json:
        show_json(to_dict(resolved.recipe))
    else:
        show_table(recipe, ["setting", "value", "source"], registry.settings(resolved))

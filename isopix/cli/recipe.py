"""`isopix recipe`: which recipes there are, and every setting of one."""

from cyclopts import App

from isopix.cli.console import Json, SettingsFile, show_json, show_table
from isopix.core.config import to_dict
from isopix.recipes import registry

app = App(
    name="recipe",
    help="""List the recipes; show one with every setting and where it comes from.

Example: isopix recipe show igpt.tiny
""",
)


@app.command(name="list")
def list_recipes(*, json: Json = False) -> None:
    """List the recipes, the smallest of each paper first; families of many by the pattern of their names.

    Example: isopix recipe list
    """
    lines = registry.listing()
    if json:
        show_json(lines)
    else:
        show_table("Recipes", ["name", "what it is"], list(lines.items()))


@app.command
def show(recipe: str, *settings: str, file: SettingsFile = None, json: Json = False) -> None:
    """Show every setting of a recipe after all changes, and where each value comes from.

    Example: isopix recipe show igpt.tiny depth=4

    Parameters
    ----------
    recipe
        A name from `isopix recipe list`.
    settings
        Changes, as path=value.
    """
    resolved = registry.resolve(recipe, file=file, assignments=settings)
    if json:
        show_json(to_dict(resolved.recipe))
    else:
        show_table(recipe, ["setting", "value", "from"], registry.settings(resolved))

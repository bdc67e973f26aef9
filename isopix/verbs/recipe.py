"""`isopix recipe`: list recipes and show their settings."""

from isopix.core.verb import verb
from isopix.recipes.results import RecipeList, RecipeSettings
from isopix.verbs.options import RecipeLike, Settings, SettingsFile


@verb(command="recipe list")
def list_recipes() -> RecipeList:
    """List the recipes by paper, smallest first; large families as one name pattern.

    Example: isopix recipe list
    """
    from isopix.recipes import registry

    return RecipeList(recipes=registry.listing())


@verb(command="recipe show")
def show_recipe(recipe: RecipeLike, *settings: Settings, file: SettingsFile = None) -> RecipeSettings:
    """Show every setting of a recipe: its value, what it means, and where a changed value comes from.

    Example: isopix recipe show igpt.tiny depth=4
    """
    from isopix.recipes import registry

    found = registry.resolve(recipe, file=file, settings=settings)
    return RecipeSettings(recipe=found.recipe.name, settings=tuple(registry.settings(found)))

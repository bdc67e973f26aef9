"""Command-line errors as one line: what was given, and what is allowed."""

import importlib
import re
from collections.abc import Iterable, Sequence
from functools import singledispatch

from cyclopts import CycloptsError
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from isopix.core.config import validated
from isopix.core.text import SETTING_SYNONYMS, did_you_mean

SETTINGS = "SETTINGS"  # the positional argument of commands that take settings
SIMILARITY = 0.75  # `limt` is close enough to `limit` to be suggested, `nope` is not to `top-p`
OF_COMMANDS = 0.65  # two of three letters: `fti` is `fit`
# Names of commands and options in other tools and earlier versions, for suggestions.
SYNONYMS = {
    "convert": "import",
    "publish": "export",
    "low-data": "probe",
    "verify": "evaluate",
    "fit": "pretrain",
    "generate": "sample",
    "inpaint": "complete",
    "linear-probe": "probe",
    "dataset": "data",
    "models": "list",
    "recipe": "show",
    "study": "reproduce",
    **dict.fromkeys(("num", "num-images", "num-samples"), "count"),
    **dict.fromkeys(("output", "output-dir"), "out"),
    "temp": "temperature",
}


@singledispatch
def format_error(error: CycloptsError) -> str:
    """Return the error as one line, in the words of cyclopts where ours say no more."""
    return " ".join(str(error).split())


@format_error.register
def _(error: UnknownCommandError) -> str:
    assert error.unused_tokens
    assert error.app
    commands = [name for name in error.app if not name.startswith("-")]
    given = error.unused_tokens[0]
    hint = _suggestion(given, commands, OF_COMMANDS)
    if given == "search-lr":
        hint = "give the setting lr=search to pretrain or finetune; "
    return f"unknown command '{given}'; {hint}commands: {', '.join(commands)}"


@format_error.register
def _(error: UnknownOptionError) -> str:
    given = (error.token.keyword or error.token.value).split("=")[0]
    arguments = [each for each in error.argument_collection if each.parse]
    options = [name for each in arguments if not each.field_info.is_positional for name in each.names]
    takes_settings = any(each.name == SETTINGS for each in arguments)
    setting = _as_setting(given, error.root_input_tokens or [])
    name = setting.partition("=")[0]
    # Imported here, since it takes as long as PyTorch.
    if takes_settings and importlib.import_module("isopix.recipes.registry").is_setting(name):
        hint = f"it is a setting: write {setting}; "
    elif takes_settings and name in SETTING_SYNONYMS:
        hint = f"did you mean the setting '{SETTING_SYNONYMS[name]}'? write {SETTING_SYNONYMS[name]}=VALUE; "
    else:
        hint = _suggestion(given, options) or (f"if it is a setting, write {setting}; " * takes_settings)
    return f"unknown option '{given}'; {hint}options of {_command(error)}: {', '.join(options)}"


@format_error.register
def _(error: MissingArgumentError) -> str:
    assert error.argument
    if error.keyword is None:
        name = error.argument.name
        shown = name.lstrip("-").upper() if error.argument.field_info.is_positional else name
        return f"missing {shown}; see: {_command(error)} --help"
    count, _ = error.argument.token_count()
    return f"{error.keyword} needs {'a value' if count == 1 else f'{count} values'}"


@format_error.register
def _(error: UnusedCliTokensError) -> str:
    assert error.unused_tokens
    return f"unexpected argument '{error.unused_tokens[0]}'; see: {_command(error)} --help"


@format_error.register
def _(error: CoercionError) -> str:
    assert error.token
    try:
        name = error.argument.name.lstrip("-").upper() if error.argument else "value"
        validated(error.token.keyword or name, error.target_type, error.token.value)
    except ValueError as refused:  # in the words of settings
        return str(refused)
    return " ".join(str(error).split())


def with_option_names(message: str, parameters: Iterable[str], typed: Sequence[str] = ()) -> str:
    """Return a Python function's message with parameters as options: `top_k` as `--top-k`, -n as `typed`.

    A name of one word is an ordinary word, unless the message starts with it, as in `layer 7 does not exist`.
    """
    for name in parameters:
        start = r"(?<![\w.'-])" if "_" in name else "^"
        option = "-n" if name == "count" and "-n" in typed else f"--{name.replace('_', '-')}"
        message = re.sub(rf"{start}{name}(?![\w.:'])", option, message)
    return message


def _as_setting(option: str, words: Sequence[str]) -> str:
    """Return an option that was typed in these words as a setting: `--batch-size 4` as `batch_size=4`."""
    typed = next(i for i, word in enumerate(words) if word.split("=")[0] == option)
    value = words[typed].partition("=")[2] or next(iter(words[typed + 1 :]), "")
    return f"{option.lstrip('-').replace('-', '_')}={value if value and value[0] != '-' else 'VALUE'}"


def _command(error: CycloptsError) -> str:
    return " ".join(["isopix", *(error.command_chain or ())])


def _suggestion(given: str, names: Iterable[str], similarity: float = SIMILARITY) -> str:
    bare = {name.lstrip("-"): name for name in names}
    word = given.lstrip("-")
    return did_you_mean(SYNONYMS.get(word, word), bare, similarity=similarity, shown=bare.__getitem__)

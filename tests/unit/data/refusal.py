"""The message of a refusal."""

from collections.abc import Callable
from typing import Any

import pytest


def refusal(call: Callable[..., object], *arguments: object, kind: Any = ValueError) -> str:
    """The message of the error that the call raises; always one line."""
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value), str(caught.value)
    return str(caught.value)

"""The message of a refusal."""

from collections.abc import Callable

import pytest


def refusal(
    call: Callable[..., object],
    *arguments: object,
    kind: type[Exception] | tuple[type[Exception], ...] = ValueError,
) -> str:
    """The message of the error that the call raises; always one line."""
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)

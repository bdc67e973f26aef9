"""Random numbers are a function of seed, purpose and step."""

import torch

from isopix.core.random import seeded


def test_seeded_draws_depend_on_the_arguments_alone_and_leave_the_global_generator() -> None:
    def drawn(*given: object) -> list[float]:
        with seeded(*given, torch.device("cpu")):
            return torch.rand(3).tolist()

    before = torch.get_rng_state()
    first = drawn(0, "dropout", 1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert drawn(0, "dropout", 1) == first
    others = {tuple(drawn(0, "dropout", 2)), tuple(drawn(1, "dropout", 1)), tuple(drawn(0, "x", 1))}
    assert len(others | {tuple(first)}) == 4

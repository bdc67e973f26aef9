import torch

from isopix.core.random import generator


def draw(*arguments) -> torch.Tensor:
    return torch.rand(4, generator=generator(*arguments))


def test_equal_arguments_give_equal_draws() -> None:
    assert torch.equal(draw(0, "masks", 7), draw(0, "masks", 7))


def test_seed_purpose_and_step_all_matter() -> None:
    draws = [
        draw(0, "masks", 7),
        draw(1, "masks", 7),
        draw(0, "order", 7),
        draw(0, "masks", 8),
        draw(0, "masks7"),
    ]
    assert len({tuple(each.tolist()) for each in draws}) == len(draws)


def test_the_global_generator_is_unchanged() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    draw(0, "masks")
    assert torch.equal(before, torch.random.get_rng_state())

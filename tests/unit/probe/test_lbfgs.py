"""L-BFGS finds the minimum of each function of a batch, and says when it did not."""

import pytest
import torch

from isopix.probe import lbfgs

TARGETS = torch.tensor([[1.0, 2.0], [-3.0, 0.5], [0.0, 0.0]], dtype=torch.float64)
CURVES = torch.tensor([[1.0, 1e4], [5.0, 1.0], [1.0, 1.0]], dtype=torch.float64)


def bowls(points, members):
    away = points - TARGETS[members]
    return (CURVES[members] * away.square()).sum(-1) / 2, CURVES[members] * away


def valleys(points, members):
    """Rosenbrock's function, from as many starts as there are points."""
    x, y = points.unbind(-1)
    steep = y - x.square()
    gradients = torch.stack([-2 * (1 - x) - 400 * x * steep, 200 * steep], -1)
    return (1 - x).square() + 100 * steep.square(), gradients


def small(values, gradients, members):
    return gradients.norm(dim=-1) <= 1e-8


def minimise(function, start, limit=200):
    return lbfgs.minimise(function, start, curvature=torch.ones_like(start), stop=small, limit=limit)


def test_every_bowl_ends_at_its_own_bottom():
    found = minimise(bowls, torch.zeros_like(TARGETS))
    assert found.met.all()
    torch.testing.assert_close(found.state.points, TARGETS)


def test_a_bowl_that_starts_at_its_bottom_takes_no_step():
    assert minimise(bowls, torch.zeros_like(TARGETS)).steps[2] == 0


def test_the_true_curvature_needs_one_step():
    found = lbfgs.minimise(bowls, torch.zeros_like(TARGETS), curvature=CURVES, stop=small, limit=200)
    assert found.steps.tolist() == [1, 1, 0]


def test_bent_valleys_are_followed_to_their_end():
    starts = torch.tensor([[-1.2, 1.0], [2.0, -3.0], [0.0, 0.0], [30.0, 30.0]], dtype=torch.float64)
    found = minimise(valleys, starts)
    assert found.met.all()
    torch.testing.assert_close(found.state.points, torch.ones_like(starts))


def test_a_problem_goes_its_own_way_in_any_company():
    starts = torch.tensor([[-1.2, 1.0], [2.0, -3.0], [30.0, 30.0]], dtype=torch.float64)
    together = minimise(valleys, starts)
    alone = [minimise(valleys, start[None]) for start in starts]
    assert together.steps.tolist() == [each.steps.item() for each in alone]
    assert torch.equal(together.state.points, torch.cat([each.state.points for each in alone]))


def test_finished_problems_are_not_evaluated_again():
    members_seen = []

    def counted(points, members):
        members_seen.extend(members.tolist())
        return valleys(points, members)

    found = minimise(counted, torch.tensor([[1.0, 1.0], [-1.2, 1.0]], dtype=torch.float64))
    assert members_seen.count(0) == 1
    assert members_seen.count(1) > found.steps[1] > 10


@pytest.mark.parametrize("limit", [0, 3])
def test_a_search_cut_short_says_so(limit):
    found = minimise(valleys, torch.tensor([[-1.2, 1.0]], dtype=torch.float64), limit=limit)
    assert (found.met.item(), found.steps.item()) == (False, limit)


def test_a_function_without_a_way_down_is_given_up():
    def liar(points, members):
        values, gradients = bowls(points, members)
        return values, -gradients

    found = minimise(liar, torch.zeros_like(TARGETS))
    assert found.met.tolist() == [False, False, True]
    assert found.steps.tolist() == [1, 1, 0]

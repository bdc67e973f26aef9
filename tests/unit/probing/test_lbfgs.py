"""L-BFGS finds the minimum of each function of a batch, and reports where it did not."""

import pytest
import torch

from isopix.probing import lbfgs

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


def minimize(function, start, max_iterations=200):
    return lbfgs.minimize(
        function, start, curvature=torch.ones_like(start), stop=small, max_iterations=max_iterations
    )


def test_the_exact_curvature_needs_one_step():
    found = lbfgs.minimize(bowls, torch.zeros_like(TARGETS), curvature=CURVES, stop=small, max_iterations=200)
    assert found.iterations.tolist() == [1, 1, 0]


def test_curved_valleys_are_followed_to_their_end():
    starts = torch.tensor([[-1.2, 1.0], [2.0, -3.0], [0.0, 0.0], [30.0, 30.0]], dtype=torch.float64)
    found = minimize(valleys, starts)
    assert found.converged.all()
    torch.testing.assert_close(found.state.points, torch.ones_like(starts))


def test_a_problem_does_not_depend_on_its_batch():
    starts = torch.tensor([[-1.2, 1.0], [2.0, -3.0], [30.0, 30.0]], dtype=torch.float64)
    together = minimize(valleys, starts)
    alone = [minimize(valleys, start[None]) for start in starts]
    assert together.iterations.tolist() == [each.iterations.item() for each in alone]
    assert torch.equal(together.state.points, torch.cat([each.state.points for each in alone]))


def test_finished_problems_are_not_evaluated_again():
    members_seen = []

    def counted(points, members):
        members_seen.extend(members.tolist())
        return valleys(points, members)

    found = minimize(counted, torch.tensor([[1.0, 1.0], [-1.2, 1.0]], dtype=torch.float64))
    assert members_seen.count(0) == 1
    assert members_seen.count(1) > found.iterations[1] > 10


@pytest.mark.parametrize("max_iterations", [0, 3])
def test_an_interrupted_fit_is_not_converged(max_iterations):
    found = minimize(valleys, torch.tensor([[-1.2, 1.0]], dtype=torch.float64), max_iterations=max_iterations)
    assert (found.converged.item(), found.iterations.item()) == (False, max_iterations)

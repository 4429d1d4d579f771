"""The perturbed run changes roundings and nothing else."""

from __future__ import annotations

import numpy as np
import optax
import pytest
import torch

from parity.kinks_torch import Kinks
from parity.perturb import CONTRACTION, Perturbation, adam_in_float32


def test_every_initial_weight_moves_to_a_neighbour() -> None:
    model = torch.nn.Linear(50, 40)
    before = [p.detach().numpy().copy() for p in model.parameters()]
    Perturbation(0).initial(model)
    for old, parameter in zip(before, model.parameters(), strict=True):
        new = parameter.detach().numpy()
        up, down = np.nextafter(old, np.float32(np.inf)), np.nextafter(old, np.float32(-np.inf))
        assert ((new == up) | (new == down)).all()
        assert 0.3 < (new == up).mean() < 0.7


def test_a_weight_that_is_one_number_moves_as_well() -> None:
    model = torch.nn.ParameterDict({"scale": torch.nn.Parameter(torch.ones([]))})
    Perturbation(0).initial(model)
    assert model["scale"].shape == () and abs(model["scale"].item() - 1) in (2.0**-23, 2.0**-24)


def test_the_seed_decides() -> None:
    start = torch.nn.Linear(9, 9).state_dict()
    results = []
    for seed in (0, 0, 1):
        model = torch.nn.Linear(9, 9)
        model.load_state_dict(start)
        Perturbation(seed).initial(model)
        results.append(model.weight.detach().numpy())
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()


def test_gradients_get_the_error_of_a_contraction_and_zeros_stay() -> None:
    weight, unused = torch.nn.Parameter(torch.ones(1000)), torch.nn.Parameter(torch.ones(10))
    weight.grad = torch.cat([torch.zeros(500), torch.randn(500)])
    before = weight.grad.double()
    optimizer = torch.optim.SGD([weight, unused], lr=0.1)
    Perturbation(0)._before_update(optimizer)
    assert torch.equal(weight.grad[:500], torch.zeros(500))
    error = (weight.grad - before).norm() / before.norm() / 0.5**0.5  # half of the entries have one
    assert error.item() == pytest.approx(CONTRACTION, rel=0.2)
    assert torch.equal(weight, torch.ones(1000)) and unused.grad is None


def test_the_learning_rate_is_back_after_the_step() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    perturbation = Perturbation(0)
    perturbation._before_update(optimizer)
    assert optimizer.param_groups[0]["lr"] != 0.1
    perturbation._after_update(optimizer)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1, rel=1e-15)


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.999), (0.9, 0.95)])
def test_the_factor_is_what_optax_does(betas: tuple[float, float]) -> None:
    """The update of optax over that of torch, for a gradient that never changes (both are then the learning rate)."""
    optimizer = optax.adam(1.0, b1=betas[0], b2=betas[1], eps=0.0)
    params = np.zeros(1, np.float32)
    state = optimizer.init(params)
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    reference = torch.optim.Adam([weight], lr=1.0, betas=betas, eps=0.0)
    for step in range(1, 30):
        updates, state = optimizer.update(np.ones(1, np.float32), state, params)
        weight.grad = torch.ones(1, dtype=torch.float64)
        before = weight.detach().clone()
        reference.step()
        ratio = float(updates[0]) / (weight.detach() - before).item()
        # both moments are sums in float32 too: some units in the last place
        assert ratio == pytest.approx(adam_in_float32(betas, step), abs=8 * 2**-23)


AT_KINKS = {
    "relu": (torch.relu, [1e-9, 1.0, -1.0], {(0.0, 1.0, 0.0), (1.0, 1.0, 0.0)}),
    "relu in place": (lambda x: (x + 0).relu_(), [1e-9, 1.0, -1.0], {(0.0, 1.0, 0.0), (1.0, 1.0, 0.0)}),
    "ReLU": (torch.nn.ReLU(), [1.0, 0.0, -1.0], {(1.0, 0.0, 0.0), (1.0, 1.0, 0.0)}),
    "abs": (torch.abs, [-1e-9, -2.0], {(-1.0, -1.0), (1.0, -1.0)}),
    "clamp": (lambda x: x.clamp(max=1.0), [1.0, 2.0, 0.5], {(1.0, 0.0, 1.0), (0.0, 0.0, 1.0)}),
    "max_pool": (
        lambda x: torch.nn.functional.max_pool1d(x[None], 2),
        [1.0, 1.0 + 2.0**-23, 3.0, 1.0],
        {(0.0, 1.0, 1.0, 0.0), (1.0, 0.0, 1.0, 0.0)},
    ),
    "sin": (torch.sin, [0.0], {(1.0,)}),
}


@pytest.mark.parametrize("name", AT_KINKS)
def test_a_kink_is_taken_both_ways_and_what_is_no_kink_stays(name: str) -> None:
    function, at, slopes = AT_KINKS[name]
    found = set()
    for sign in (1, -1):
        x = torch.tensor(at, requires_grad=True)
        with Kinks(sign):
            y = function(x)
        torch.testing.assert_close(y, function(x), rtol=0, atol=2.0**-23)
        found.add(tuple(torch.autograd.grad(y.sum(), x)[0].tolist()))
    assert found == slopes


def test_kinks_leave_the_draws_of_a_script_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with Kinks(1):
        torch.relu(torch.ones(2, requires_grad=True))
        assert torch.equal(torch.rand(3), expected)

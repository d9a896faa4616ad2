"""Exact losses of gradient descent: beside drawn eigenvalues and SciPy's minima."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from icl.baselines.expected_descent import (
    ExpectedDescent,
    wishart_moments,
    wishart_quadrature,
)
from icl.tasks.regression import GaussianInputs, LinearRegression, UniformInputs


NOISY = LinearRegression(5, 10, GaussianInputs(1.0), noise=0.05)
SIZES = [(5, 10), (3, 2), (1, 1), (4, 4)]


def eigenvalues(dim, context, count=200_000):
    x = np.random.default_rng(0).normal(size=(count, context, dim))
    return np.linalg.eigvalsh(np.einsum("snd,sne->sde", x, x) / context)


@pytest.mark.parametrize(("dim", "context"), SIZES)
def test_moments_and_means_are_those_of_drawn_contexts(dim, context):
    drawn = eigenvalues(dim, context)
    moments = wishart_moments(dim, context, 4)
    wanted = [(drawn**k).mean() for k in range(4)]
    np.testing.assert_allclose([float(m) for m in moments], wanted, rtol=0.03)
    # The first two in closed form.
    assert moments[:3] == [1, 1, 1 + Fraction(dim + 1, context)]
    nodes, weights = wishart_quadrature(dim, context, 2)
    np.testing.assert_allclose(np.sum(weights * nodes**3), float(moments[3]))


def loss_in_numpy(task, rates, drawn):
    left = np.prod([1 - rate * drawn for rate in rates], axis=0)
    signal = task.weight_scale**2 * np.sum(left**2, -1)
    noise = task.noise**2 / task.context * np.sum((1 - left) ** 2 / drawn, -1)
    return 0.5 * np.mean(signal + noise)


@pytest.mark.parametrize("rates", [[0.6], [0.3, 0.9], [0.2, 0.4, 0.6, 0.8]])
def test_the_loss_is_the_mean_over_drawn_contexts(rates):
    drawn = eigenvalues(5, 10)
    wanted = loss_in_numpy(NOISY, rates, drawn)
    found = ExpectedDescent(NOISY).loss(np.array(rates))
    np.testing.assert_allclose(found, wanted, rtol=0.01)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_no_rates_are_better(steps):
    descent = ExpectedDescent(NOISY)
    start = np.geomspace(0.3, 1.2, steps)
    options = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 10_000}
    least = optimize.minimize(
        descent.loss, start, method="Nelder-Mead", options=options
    )
    found = descent.best_rates(steps)
    np.testing.assert_allclose(found, np.sort(least.x), rtol=1e-5)
    one = optimize.minimize_scalar(lambda r: descent.loss(np.full(steps, r)), (0.1, 1))
    np.testing.assert_allclose(descent.best_rate(steps), one.x, rtol=1e-5)


def test_one_step_has_the_rate_of_the_closed_form():
    """Von Oswald et al. 2023: the rate that minimises the mean, from two moments."""
    clean = LinearRegression(4, 6, GaussianInputs(2.0), weight_scale=3.0)
    descent = ExpectedDescent(clean)
    second = 4.0 * (1 + 5 / 6)  # The mean of lambda^2 over that of lambda.
    np.testing.assert_allclose(descent.best_rate(1), 1 / second, rtol=1e-8)
    np.testing.assert_allclose(descent.best_rates(1), 1 / second, rtol=1e-10)


@pytest.mark.parametrize("context", [2, 5, 10])
def test_more_steps_never_cost(context):
    """Also with more components than pairs, where some eigenvalues are zero."""
    descent = ExpectedDescent(dataclasses.replace(NOISY, context=context))
    counts = (1, 2, 4, 8, 16, 24)
    each = [descent.loss(descent.best_rates(k)) for k in counts]
    one = [descent.loss(np.full(k, descent.best_rate(k))) for k in counts]
    assert np.all(np.diff(each) < 0)
    assert np.all(np.diff(one) < 0)
    assert np.all(np.array(each) <= np.array(one) + 1e-12)


def test_noise_for_which_no_rates_are_best_is_an_error():
    with pytest.raises(ValueError, match="steps=8: no positive rates are best"):
        ExpectedDescent(dataclasses.replace(NOISY, noise=5.0)).best_rates(8)


def test_other_points_are_an_error():
    with pytest.raises(ValueError, match="must have GaussianInputs and no pair_noise"):
        ExpectedDescent(LinearRegression(input_distribution=UniformInputs(1.0)))

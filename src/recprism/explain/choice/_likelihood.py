"""The conditional logit: fitted by Newton steps on some slots, judged on others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recprism.explain._kernels.choice import add_slots, judge_slots
from recprism.explain.choice._places import Array, IntArray, Slots

RIDGE = 1e-3  # in standardised coefficients: it keeps them finite where the choices are predicted without error
MOST_STEPS = 100
ENOUGH = 1e-5  # a step that adds less to the log-likelihood of all slots is the last one


@dataclass(frozen=True, eq=False)
class Logit:
    """Slots with features, ready to be fitted.

    Attributes:
        slots: The slots; every one has a chosen alternative.
        values: ``(n_slots, n_features, n)`` features.
        scale: ``(n_features,)`` standard deviations among the alternatives of a slot; 0 for a constant feature.
    """

    slots: Slots
    values: Array
    scale: Array

    @classmethod
    def of(cls, slots: Slots, values: Array) -> Logit:
        """Measure the scale of the features: at coefficients of 0 the Hessian holds their variances."""
        logit = cls(slots, values, np.ones(values.shape[1]))
        _, _, hessian = logit._sums(np.arange(len(slots.which)), np.zeros(values.shape[1]))
        scale = np.sqrt(np.maximum(np.diagonal(hessian), 0) / len(slots.which))
        largest = np.abs(values[np.arange(len(slots.which)), :, slots.chosen]).max(0)
        return cls(slots, values, np.where(scale > 1e-7 * (1 + largest), scale, 0.0))

    def fit(self, rows: IntArray, allowed: IntArray, start: Array | None = None, *, enough: float = ENOUGH) -> Array:
        """Return ``(n_features,)`` coefficients that maximise the penalised likelihood of some slots.

        Args:
            rows: The slots.
            allowed: The features that may have a coefficient; constant ones get 0.
            start: Where to start; zeros by default.
            enough: A step that adds less to the log-likelihood is the last one.
        """
        used = allowed[self.scale[allowed] > 0]
        weights, scale = np.zeros(self.values.shape[1]), self.scale[used]
        if not len(used):
            return weights
        p = int(used.max()) + 1
        if start is not None:
            weights[used] = start[used]

        def at(own: Array) -> tuple[float, Array, Array]:
            full = np.zeros(p)
            full[used] = own / scale
            likelihood, gradient, hessian = self._sums(rows, full)
            penalised = likelihood - RIDGE / 2 * float(own @ own)
            curved = hessian[np.ix_(used, used)] / np.outer(scale, scale) + RIDGE * np.eye(len(used))
            return penalised, gradient[used] / scale - RIDGE * own, curved

        found = weights[used] * scale
        value, gradient, curved = at(found)
        for _ in range(MOST_STEPS):
            step = np.linalg.solve(curved, gradient)
            if gradient @ step < 2 * enough:
                found = found + step
                break
            tried = at(found + step)
            while tried[0] < value and gradient @ step > enough / 2:  # too far: no parabola reaches there
                step = step / 2
                tried = at(found + step)
            found, (value, gradient, curved) = found + step, tried
        weights[used] = found / scale
        return weights

    def judge(self, rows: IntArray, weights: Array) -> tuple[Array, Array]:
        """Return ``(n,)`` log-likelihoods of some slots, and the chances that a guess of the best item is right."""
        likelihood, right = np.zeros((2, len(self.slots.which)))
        judge_slots(rows, self.values, self.slots.counts, self.slots.chosen, weights, likelihood, right)
        return likelihood[rows], right[rows]

    def errors(self, weights: Array) -> Array:
        """Return ``(n_features,)`` standard errors of standardised coefficients that were fitted on all slots.

        They are the larger ones of two kinds: from the curvature of the likelihood, and from the spread over users.
        """
        used, user = np.flatnonzero(self.scale > 0), self.slots.which[:, 0]
        scale = self.scale[used]
        of_users = [self._sums(np.flatnonzero(user == it), weights)[1][used] / scale for it in np.unique(user)]
        curved = self._sums(np.arange(len(user)), weights)[2][np.ix_(used, used)] / np.outer(scale, scale)
        inverse = np.linalg.inv(curved + RIDGE * np.eye(len(used)))
        moved = np.stack(of_users) @ inverse
        found = np.zeros(len(self.scale))
        found[used] = np.sqrt(np.maximum(np.diagonal(inverse), (moved**2).sum(0)))
        return found

    def _sums(self, rows: IntArray, weights: Array) -> tuple[float, Array, Array]:
        gradient, hessian = np.zeros(len(weights)), np.zeros((len(weights), len(weights)))
        likelihood = add_slots(rows, self.values, self.slots.counts, self.slots.chosen, weights, gradient, hessian)
        return likelihood, gradient, np.tril(hessian) + np.tril(hessian, -1).T

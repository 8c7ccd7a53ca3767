"""Energy-matched scales r̄₁, r̄₂.

The scales set how far the random projections reach into the bend of tanh. With

    S_X = mean ‖xᵢ‖²,   S_Y = mean ‖yᵢ‖²,   S_H = mean ‖h⁽¹⁾(xᵢ)‖²

each layer's features are given a share of the output energy: γ₁ = 0.7 to the first, whose input energy is S_X,
and γ₂ = 0.3 to the second, whose input energy is that of pilot features of the first. Clipping with τ = δ = 2
keeps features from vanishing and from saturating.

Energy matching shrinks r₁ like n₁^(−½), so that wide layers drift towards the linear regime. A rule that does not
know the width states instead how far into its bend tanh is driven: gains g₁, g₂ with

    r₁ = g₁ / rms(W⁽¹⁾x),   r₂ = g₂ / rms(W⁽²⁾h⁽¹⁾).

Energy matching does not depend on the unit of the inputs. It does depend on the unit of the outputs, through S_Y,
until the clipping holds it: that is the paper's rule. Where the scales are refined on a scan (`refine`), the scan is
centred at the geometric middle of the clipping bounds instead, 4/√n for each neuron, which has no unit.
"""

from __future__ import annotations

import math

from pcarann.backend.arrays import Array, place_of, row_quantiles, taken
from pcarann.backend.random import spread
from pcarann.features.random_layers import HiddenLayers, layer_output

__all__ = ["energy_matched_scale", "energy_matched_scales", "gain_scales", "mean_energy"]

SHARES = (0.7, 0.3)
FLOOR = 2.0
CEILING = 2.0
_PILOT_ROWS = 2048


def energy_matched_scale(input_energy: float, target_energy: float | None, *, width: int, share: float) -> float:
    """Scale at which a layer's features carry a share of the target energy.

    For small arguments tanh z ≈ z, and E[W²] = 1/3, so the layer's energy is r² n S_X / 3. Setting it to γ S_Y
    gives r = √(3 γ S_Y / (n S_X)), clipped to [√(3 τ² / (n S_X)), √(3 δ² / S_X)]. Inputs without energy make
    every scale the same: r = 1. Without a target the scale is the geometric middle of the two bounds.

    >>> energy_matched_scale(3.0, 100.0, width=100, share=0.25)
    0.5
    >>> energy_matched_scale(3.0, 1e9, width=100, share=0.25)
    2.0
    """
    if not input_energy > 0:
        return 1.0
    lowest, highest = FLOOR**2 / width, CEILING**2
    # The paper's order of clipping, max{min, min{var, max}}: the floor wins where the two cross.
    wanted = math.sqrt(lowest * highest) if target_energy is None else share * target_energy / width
    per_neuron = max(min(wanted, highest), lowest)
    return math.sqrt(3 * per_neuron / input_energy)


def energy_matched_scales(layers: HiddenLayers, x: Array, y: Array | None, unit: float = 1.0) -> tuple[float, float]:
    """Return (r̄₁, r̄₂) for (samples, latent) inputs and outputs, these in a unit, the second from pilot features.

    Without outputs, (r̄₁, r̄₂) are the middle of what is allowed.
    """
    place = place_of(x)
    target = None if y is None else mean_energy(y) * unit * unit
    first = energy_matched_scale(mean_energy(x), target, width=layers.sizes[1], share=SHARES[0])
    projections = layers.weights(1, place) @ x.T
    pilot = layer_output(projections, row_quantiles(projections, layers.levels(1, place)), first)
    second = energy_matched_scale(mean_energy(pilot.T), target, width=layers.sizes[2], share=SHARES[1])
    return first, second


def gain_scales(layers: HiddenLayers, x: Array, gains: tuple[float, float]) -> tuple[float, float]:
    """Return (r₁, r₂) at which the arguments of tanh have these root mean squares, apart from the anchors."""
    place = place_of(x)
    rows = taken(x, spread(int(x.shape[0]), _PILOT_ROWS))
    projections = layers.weights(1, place) @ rows.T
    first = gains[0] / (_rms(projections) or 1.0)
    pilot = layer_output(projections, row_quantiles(projections, layers.levels(1, place)), first)
    return first, gains[1] / (_rms(layers.weights(2, place) @ pilot) or 1.0)


def _rms(matrix: Array) -> float:
    return math.sqrt(mean_energy(matrix) / int(matrix.shape[1]))


def mean_energy(rows: Array) -> float:
    """Mean squared norm of the rows of a (samples, …) matrix.

    >>> import numpy as np
    >>> round(mean_energy(np.array([[3.0, 4.0], [0.0, 1.0]])), 12)
    13.0
    """
    norms = place_of(rows).xp.linalg.vector_norm(rows, axis=1)
    return float(norms @ norms) / int(rows.shape[0])

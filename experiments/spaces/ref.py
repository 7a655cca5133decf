"""References that expressions do not reach."""

import numpy as np


def convolved(weights, width, height, **arrays):
    """The weighted sum of each pixel's 9 x 9 neighbours, (height, width)."""
    image, weights = arrays["in"].astype(np.float64), weights.astype(np.float64)
    return sum(weights[j, i] * image[j : j + height, i : i + width] for j in range(9) for i in range(9))


def accelerations(bodies, n, packed):
    """What all bodies do to each, (n, 3), in the layout of the kernel; softened by 0.01."""
    table = bodies.astype(np.float64).reshape((n, 4) if packed else (4, n))
    x, y, z, mass = table.T if packed else table
    apart = np.stack([here[None, :] - here[:, None] for here in (x, y, z)])
    near = mass / (np.sum(apart * apart, axis=0) + 0.01) ** 1.5
    return np.einsum("dij,ij->id", apart, near)

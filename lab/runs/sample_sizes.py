"""Sizes of small problems that fill blocks, tiles and warps as the real problem does."""

from __future__ import annotations

from collections.abc import Mapping

from lab.base.expressions import Scalar
from lab.base.warp import LINE_BYTES


def smaller_sizes(emulated: Mapping[str, Scalar], real: Mapping[str, Scalar]) -> Mapping[str, tuple[int, int]]:
    """Return the sizes in which the emulated problem is smaller than the real one: both, by name.

    Args:
        emulated: The emulated problem.
        real: The real one.
    """
    sizes: dict[str, tuple[int, int]] = {}
    for name, size in real.items():
        small = emulated.get(name)
        if isinstance(size, bool) or not isinstance(size, int) or not isinstance(small, int) or not 1 <= small < size:
            continue
        sizes[name] = (small, size)
    return sizes


def congruent(real: int, small: int, factor: int) -> int:
    """Return a size congruent to `real` modulo a power of two that is at least `factor` times `small`.

    Blocks, tiles and warps of a power of two that is no larger are then filled as they are at the real size.

    Args:
        real: The real size.
        small: The emulated size, 1 to `real`.
        factor: 1 or more.

    Returns:
        The least that is not below `small`; `real` where that is at most ``2 * factor * small``.
    """
    if real <= 2 * factor * small:
        return real
    period = 1 << (factor * small - 1).bit_length()
    return small + (real - small) % period


def others(size: int, real: int) -> tuple[int, ...]:
    """Return sizes to emulate beside one to see how the work grows, in the order to try them.

    Half and a quarter cost least. A kernel that goes through 240 of 4080 in steps of 16 allows neither, but the smaller
    sizes that leave the remainder of `real` by a power of two. A tile of 128 rows cannot cover 64, but twice as many.

    Args:
        size: The size, 1 to `real`.
        real: The real size.
    """
    period = 1 << (size.bit_length() - 1)
    candidates = (size // 2, size // 4, real % period, real % max(1, period // 2), 2 * size, 4 * size)
    return tuple(candidate for candidate in dict.fromkeys(candidates) if 1 <= candidate <= real and candidate != size)


def filled(real: int, small: int, factor: int) -> int:
    """Return the least power of two that is at least `factor` times `small`, or `small` where `real` is less.

    Blocks, tiles and warps of a power of two that is no larger are filled, as nearly all are at a much larger size.
    Unlike those of `congruent`, such sizes are the same for many real ones, so that they are executed once.

    Args:
        real: The real size.
        small: The emulated size, 1 to `real`.
        factor: 1 or more.
    """
    size = 1 << (factor * small - 1).bit_length()
    return size if size <= real else small


def aligned_as(real: int, least: int) -> int:
    """Return the least leading dimension from `least` on with the same power-of-two factor as `real`.

    Powers from `LINE_BYTES` on are alike: whatever their type, rows then begin with lines.

    Args:
        real: The real leading dimension, in elements.
        least: 1 or more.
    """
    power = real & -real
    if power >= LINE_BYTES:
        return -(-least // LINE_BYTES) * LINE_BYTES
    return least + (power - least) % (2 * power)

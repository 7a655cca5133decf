"""Sizes of small problems whose data fills blocks, tiles and warps as that of the real problem does."""

from __future__ import annotations

from collections.abc import Mapping

from lab.base.expressions import Scalar
from lab.base.warp import LINE_BYTES


def smaller_sizes(given: Mapping[str, Scalar], real: Mapping[str, Scalar]) -> Mapping[str, tuple[int, int]]:
    """The sizes that the emulated problem has smaller than the real one: by name, both.

    Args:
        given: The emulated problem.
        real: The real one.
    """
    found: dict[str, tuple[int, int]] = {}
    for name, size in real.items():
        small = given.get(name)
        if isinstance(size, bool) or not isinstance(size, int) or not isinstance(small, int) or not 1 <= small < size:
            continue
        found[name] = (small, size)
    return found


def congruent(real: int, small: int, factor: int) -> int:
    """Return a size that leaves the remainder of `real` by a power of two, which is at least `factor` times `small`.

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
    """Return sizes to execute beside one, to see how the work grows, in the order in which they are tried.

    Half and a quarter cost least. A kernel that goes through 240 of 4080 in steps of 16 bears neither, but the smaller
    sizes that leave the remainder of `real` by a power of two. A tile of 128 rows covers no 64, but twice as many.

    Args:
        size: The size, 1 to `real`.
        real: The real size.
    """
    period = 1 << (size.bit_length() - 1)
    tried = (size // 2, size // 4, real % period, real % max(1, period // 2), 2 * size, 4 * size)
    return tuple(one for one in dict.fromkeys(tried) if 1 <= one <= real and one != size)


def filled(real: int, small: int, factor: int) -> int:
    """Return the least power of two that is at least `factor` times `small`, or `small` where `real` is less than that.

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
    """Return the least leading dimension from `least` on that is a multiple of the same power of two as `real`.

    Powers from `LINE_BYTES` on are alike: whatever their type, rows then begin with lines.

    Args:
        real: The real leading dimension, in elements.
        least: 1 or more.
    """
    power = real & -real
    if power >= LINE_BYTES:
        return -(-least // LINE_BYTES) * LINE_BYTES
    return least + (power - least) % (2 * power)

"""References that expressions do not reach."""

import numpy as np
from scipy.special import erfc


def mean(width, height, radius, **arrays):
    """The mean over (2 radius + 1)^2 pixels, (height, width)."""
    image = arrays["in"].astype(np.float64)
    side = 2 * radius + 1
    return sum(image[j : j + height, i : i + width] for j in range(side) for i in range(side)) / side**2


def moved(state, dt, n, apart):
    """Positions and speeds after a step, in the layout of the kernel."""
    table = state.reshape(6, n) if apart else state.reshape(n, 6).T
    speed = table[3:].astype(np.float32) * np.float32(0.99)
    after = np.concatenate([table[:3] + dt * speed, speed])
    return (after if apart else after.T).ravel()


def prices(spot, strike, years):
    """Prices of calls by the formula of Black and Scholes; rate 2 %, volatility 30 %."""
    spot, strike, years = (one.astype(np.float64) for one in (spot, strike, years))
    root = np.sqrt(years)
    d1 = (np.log(spot / strike) + (0.02 + 0.045) * years) / (0.3 * root)
    normal = [0.5 * erfc(-d / np.sqrt(2)) for d in (d1, d1 - 0.3 * root)]
    return spot * normal[0] - strike * np.exp(-0.02 * years) * normal[1]


def heated(out, **arrays):
    """A step of the seven-point stencil; the border stays."""
    before = arrays["in"].astype(np.float64)
    after = out.astype(np.float64)
    inner = before[1:-1, 1:-1, 1:-1]
    around = before[2:, 1:-1, 1:-1] + before[:-2, 1:-1, 1:-1] + before[1:-1, 2:, 1:-1] + before[1:-1, :-2, 1:-1]
    around = around + before[1:-1, 1:-1, 2:] + before[1:-1, 1:-1, :-2]
    after[1:-1, 1:-1, 1:-1] = 0.4 * inner + 0.1 * around
    return after


def escapes(width, height):
    """Steps until each point escapes, in the order of the kernel's operations in single precision."""
    one = np.float32
    x, y = np.arange(width, dtype=one), np.arange(height, dtype=one)[:, None]
    re, im = np.broadcast_arrays(one(-2) + one(2.5) * x / one(width), one(-1.25) + one(2.5) * y / one(height))
    a, b, steps = np.zeros_like(re), np.zeros_like(im), np.zeros(re.shape, np.int32)
    inside = np.ones(re.shape, bool)
    for _ in range(256):
        inside &= a * a + b * b < 4
        steps += inside
        a, b = np.where(inside, a * a - b * b + re, a), np.where(inside, 2 * a * b + im, b)
    return steps


def filtered(x, h, n, taps):
    """The filter's sum over the next `taps` elements, (n,)."""
    return sum(h[t].astype(np.float64) * x[t : t + n] for t in range(taps))


def polynomial(x, degree):
    """1 + 0.5 (x^degree ...) by Horner's rule in double precision, (n,)."""
    value = np.ones(x.shape)
    for _ in range(degree):
        value = value * x + 0.5
    return value


def digits(n, keys, shift, threads, items):
    """How often each digit of 4 bits occurs in each block's keys, (16, blocks)."""
    found = (keys >> shift & 15).astype(np.int64)
    blocks = n // (threads * items)
    at = found * blocks + np.arange(n) // (threads * items)
    return np.bincount(at, minlength=16 * blocks).reshape(16, blocks)


def damped_inverses(**arrays):
    """Adjoints over 1 + |determinant|, (n, 9)."""
    a = arrays["in"].astype(np.float64).reshape(-1, 3, 3)
    rows = [np.cross(a[:, (i + 1) % 3], a[:, (i + 2) % 3]) for i in range(3)]
    adjoint = np.stack(rows, axis=2)
    return (adjoint / (1 + abs(np.linalg.det(a)))[:, None, None]).reshape(-1, 9)


def _between(image, axis):
    """Twice as many pixels along an axis, a quarter of the way from each pixel to its neighbours."""
    last = image.shape[axis] - 1
    at = np.arange(2 * image.shape[axis])
    low, high = np.maximum((at - 1) >> 1, 0), np.minimum((at + 1) >> 1, last)
    share = np.where(at % 2, 0.25, 0.75)
    share = share[:, None] if axis == 0 else share
    return np.take(image, low, axis) * (1 - share) + np.take(image, high, axis) * share


def doubled(**arrays):
    """The bilinear image of twice the size, (2 height, 2 width)."""
    return _between(_between(arrays["in"].astype(np.float64), 1), 0)


def layer(weights, images, width, height, **arrays):
    """A layer of 3 x 3 convolutions, (images, 16, height, width)."""
    image, out = arrays["in"].astype(np.float64), np.zeros((images, 16, height, width))
    for j in range(3):
        for i in range(3):
            out += np.einsum("ncyx,kc->nkyx", image[:, :, j : j + height, i : i + width], weights[:, :, j, i])
    return out


def merged(a, b):
    """Both lists in order, (2 n,)."""
    return np.sort(np.concatenate([a, b]), kind="stable")


def totals(**arrays):
    """Running totals of each row."""
    return np.cumsum(arrays["in"], axis=1, dtype=np.int32)


def row_sums(start, value):
    """Sums of value[start[i] : start[i + 1]], (rows,)."""
    return np.add.reduceat(value[: start[-1]].astype(np.float64), start[:-1])


def byte_counts(data):
    """How often each byte occurs, (256,)."""
    return np.bincount(data, minlength=256)


def attended(q, k, v, width):
    """Softmax of the scaled products of queries and keys, times the values, (queries, width)."""
    found = np.empty(q.shape)
    for i in range(0, len(q), 4096):
        weight = np.exp(q[i : i + 4096].astype(np.float64) @ k.T.astype(np.float64) / np.sqrt(width))
        found[i : i + 4096] = weight @ v / weight.sum(axis=1, keepdims=True)
    return found


def transforms(**arrays):
    """Discrete Fourier transforms of the rows."""
    return np.fft.fft(arrays["in"].astype(np.complex128), axis=1)


def _rotated(word, bits):
    return word << np.uint32(bits) | word >> np.uint32(32 - bits)


def hashes(keys, seed, n, apart):
    """Murmur3's hash of 32 bits of keys of four words, (n,)."""
    one = np.uint32
    h = np.full(n, seed, one)
    for word in keys.astype(one).reshape(4, n) if apart else keys.astype(one).reshape(n, 4).T:
        h ^= _rotated(word * one(0xCC9E2D51), 15) * one(0x1B873593)
        h = _rotated(h, 13) * one(5) + one(0xE6546B64)
    h ^= one(16)
    h = (h ^ h >> one(16)) * one(0x85EBCA6B)
    h = (h ^ h >> one(13)) * one(0xC2B2AE35)
    return h ^ h >> one(16)


def medians(width, height, **arrays):
    """The median of 3 x 3 pixels, (height, width)."""
    image = arrays["in"]
    found = np.empty((height, width), np.float32)
    for y in range(0, height, 256):
        end = min(y + 256, height)
        near = [image[y + j : end + j, i : i + width] for j in range(3) for i in range(3)]
        found[y:end] = np.median(near, axis=0)
    return found


def depthwise(weight, height, width, channels, channels_last, **arrays):
    """Each channel convolved with its own 3 x 3 weights, in the layout of the kernel."""
    flat = arrays["in"].astype(np.float64)
    if channels_last:
        image = flat.reshape(height + 2, width + 2, channels)
    else:
        image = flat.reshape(channels, height + 2, width + 2).transpose(1, 2, 0)
    sums = sum(weight[3 * j + i] * image[j : j + height, i : i + width] for j in range(3) for i in range(3))
    return (sums if channels_last else sums.transpose(2, 0, 1)).ravel()


def factors(a, shift, size):
    """Cholesky's lower factors of the matrices that the lower triangles of a + shift I stand for."""
    low = np.tril(a.astype(np.float64)) + shift * np.eye(size)
    return np.linalg.cholesky(low + np.tril(low, -1).transpose(0, 2, 1))


def stepped(words, height, **arrays):
    """A step of the game of life on a torus of bits, the lowest bit of a word first."""
    board = arrays["in"].astype("<u4").view(np.uint8)
    found = np.empty((height, words), "<u4")
    for y in range(0, height, 1024):
        rows = np.arange(y - 1, min(y + 1024, height) + 1) % height
        cells = np.unpackbits(board[rows], axis=1, bitorder="little")
        near = sum(np.roll(cells, (j, i), (0, 1)) for j in (-1, 0, 1) for i in (-1, 0, 1) if i or j)
        alive = (near == 3) | (cells == 1) & (near == 2)
        found[rows[1:-1]] = np.packbits(alive[1:-1], axis=1, bitorder="little").view("<u4")
    return found


def largest(x, k):
    """The k largest numbers of each row, the largest first, and their places."""
    place = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return {"value": np.take_along_axis(x, place, axis=1), "place": place.astype(np.int32)}

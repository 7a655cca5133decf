"""A softmax of every row of a matrix by programs that stay and take rows in turn, as many as the GPU holds at once."""

import triton
import triton.language as tl


@triton.jit
def softmax(out, x, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Each program computes every row whose number is its own modulo their count, and fetches rows ahead."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * columns + at, powers / tl.sum(powers, axis=0), mask=inside)

"""Softmax in Triton, imported only with Triton, whose compiler reads the functions' source."""

# ruff: noqa: ANN001, ANN201, N803, PLR0917 - Triton's compiler reads these functions: its types, its names
# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def whole_row(X, Y, n, ldx, ldy, BLOCK: tl.constexpr):
    """Compute one row per program, in registers."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x = tl.load(X + row * ldx + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(Y + row * ldy + columns, (e / tl.sum(e, axis=0)).to(Y.dtype.element_ty), mask=columns < n)


@triton.jit
def two_passes(X, Y, n, ldx, ldy, BLOCK: tl.constexpr):
    """Compute one row per program in two passes of BLOCK columns: maximum and sum, then the quotients."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    largest = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, n, BLOCK):
        x = tl.load(X + row * ldx + begin + columns, mask=begin + columns < n, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(largest, x)
        zero = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(largest - zero) + tl.exp(x - zero)
        largest = higher
    peak = tl.max(largest, axis=0)
    zero = tl.where(peak == -float("inf"), 0.0, peak)
    scale = 1.0 / tl.sum(total * tl.exp(largest - zero), axis=0)
    for begin in range(0, n, BLOCK):
        x = tl.load(X + row * ldx + begin + columns, mask=begin + columns < n, other=0.0).to(tl.float32)
        tl.store(
            Y + row * ldy + begin + columns, (tl.exp(x - zero) * scale).to(Y.dtype.element_ty), mask=begin + columns < n
        )

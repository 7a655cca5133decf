"""Layer norm and RMS norm in Triton, imported only with Triton, whose compiler reads their source."""

# ruff: noqa: ANN001, ANN201, N803, PLR0917 - Triton's compiler reads these functions: its types, its names
# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def layer_norm_row(X, W, B, Y, n, ldx, ldy, epsilon, BLOCK: tl.constexpr):
    """Normalise one row per program, in registers; the variance is that of the differences from the mean."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(X + row * ldx + columns, mask=inside, other=0.0).to(tl.float32)
    distance = tl.where(inside, x - tl.sum(x, axis=0) / n, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(distance * distance, axis=0) / n + epsilon)
    weight = tl.load(W + columns, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(B + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(Y + row * ldy + columns, (distance * scale * weight + bias).to(Y.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm_row(X, W, Y, n, ldx, ldy, epsilon, BLOCK: tl.constexpr):
    """Normalise one row per program, in registers."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(X + row * ldx + columns, mask=inside, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n + epsilon)
    weight = tl.load(W + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(Y + row * ldy + columns, (x * scale * weight).to(Y.dtype.element_ty), mask=inside)

"""Masked softmax in Triton, imported only with Triton, whose compiler reads the function's source."""

# ruff: noqa: ANN001, ANN201, N803, PLR0917 - Triton's compiler reads this function: its types, its names
# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def masked_row(
    X, M, Y, n, queries, scale, ldx, ldm, ldy, CAUSAL: tl.constexpr, ADDED: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute one row per program, in registers; causal rows load only visible columns. M is read only if ADDED."""
    row = tl.program_id(0).to(tl.int64)
    query = row % queries
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    visible = inside
    if CAUSAL:
        visible = columns < n - queries + query + 1
    x = tl.load(X + row * ldx + columns, mask=visible, other=0.0).to(tl.float32) * scale
    if ADDED:
        x += tl.load(M + query * ldm + columns, mask=inside, other=0.0).to(tl.float32)
    x = tl.where(visible, x, -float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(Y + row * ldy + columns, (e / tl.sum(e, axis=0)).to(Y.dtype.element_ty), mask=inside)

from __future__ import annotations

from lab.isa.cuda.body.limits import Limits
from lab.isa.cuda.body.polynomials import atom, number
from lab.isa.cuda.body.statements import read_body
from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.inference.geometry import atoms_of, infer_block, infer_grid, replaced


def body_of(statements: str):
    text = f"__global__ void k(float *x, int n, int m) {{ {statements} }}"
    body = read_body(text, read_kernels(text)[0])
    assert body is not None
    return body, Limits(body.opaque)


def test_a_side_names_the_line_that_it_follows_from():
    body, limits = body_of("\n\n__shared__ float s[64];\ns[threadIdx.x] = 1; x[0] = s[0];")
    (side,) = infer_block(body, limits, ())
    assert side is not None
    assert (side.value, side.line) == (number(64), 4)


def test_a_size_is_no_side_and_a_parameter_may_be():
    body, limits = body_of("x[blockIdx.x * m + threadIdx.x] = 1;")
    assert infer_block(body, limits, ()) == (None,)
    (side,) = infer_block(body, limits, ("m",))
    assert side is not None
    assert side.value == atom("m")


def test_a_halo_has_room_for_more_threads_than_a_block_has():
    body, limits = body_of(
        "__shared__ float s[34]; int i = blockIdx.x * 32 + threadIdx.x; if (i < n) s[threadIdx.x + 1] = x[i];"
    )
    (side,) = infer_block(body, limits, ())
    assert side is not None
    assert side.value == number(32)


def test_the_caller_chooses_the_blocks_of_a_grid_that_no_size_limits():
    body, limits = body_of("x[blockIdx.x * 32 + threadIdx.x] = n + m;")
    (side,), free, assumed = infer_grid(body, limits, [number(32)], ("n", "m"))
    assert (side.value, free, assumed) == (atom("blocks"), {"blocks": number(32)}, ())
    (side,), free, (bound,) = infer_grid(body, limits, [number(32)], ("n",))
    assert not free
    assert bound.is_assumed


def test_the_one_size_that_nothing_names_is_the_length_of_the_axis_without_one():
    body, limits = body_of("x[(blockIdx.y * 4 + threadIdx.y) * n + blockIdx.x * 32 + threadIdx.x] = 1;")
    block = [number(32), number(4)]
    sides, free, _ = infer_grid(body, limits, block, ("n", "m"), ["rows"])
    assert [side.value for side in sides] == [
        limits.operation("ceil", atom("n"), number(32)),
        limits.operation("ceil", atom("rows"), number(4)),
    ]
    assert not free
    assert infer_grid(body, limits, block, ("n", "m"), ["rows", "flags"])[1] == {"blocks_y": number(4)}


def test_atoms_in_quotients_are_replaced_and_listed():
    body, limits = body_of("x[(threadIdx.x + n) / 3] = 1;")
    assert {"n", "threadIdx.x"} <= atoms_of(body)
    (access,) = replaced(body, limits, {"threadIdx.x": number(0), "n": number(9)}).accesses
    assert access.index == number(3)

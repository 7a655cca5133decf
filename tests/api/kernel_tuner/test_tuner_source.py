"""Sources as Kernel Tuner's users write them."""

from __future__ import annotations

import pytest

from lab.api.kernel_tuner.tuner_source import kernel_expression, source_text, uses_grid, with_tuner_macros
from lab.base.errors import UserError

SPACE = {"block_size_x": [32, 64], "tile": [1, 2]}
CODE = "__global__ void f(int* a) { a[threadIdx.x] = block_size_x; }"


def test_a_source_is_text_a_file_or_a_function(tmp_path):
    (tmp_path / "k.cu").write_text(CODE)
    assert source_text(CODE, SPACE) == (CODE, None)
    assert source_text(str(tmp_path / "k.cu"), SPACE) == (CODE, tmp_path / "k.cu")
    assert source_text([tmp_path / "k.cu"], SPACE) == (CODE, tmp_path / "k.cu")
    assert source_text(lambda _: CODE, SPACE) == (CODE, None)
    text, _ = source_text(lambda p: f"int t = {p['tile']};", SPACE)
    assert text == "#if tile == 1\nint t = 1;\n#elif tile == 2\nint t = 2;\n#endif"
    for wrong in (3, ["a.cu", "b.cu"], str(tmp_path / "no.cu")):
        with pytest.raises(UserError) as caught:
            source_text(wrong, SPACE)
        assert caught.value.key == "kernel_source"


def test_a_source_without_the_tuners_macros_is_left_alone():
    assert with_tuner_macros(CODE, SPACE, ["ceil_div(problem_size_x, block_size_x)"], {"problem_size_x": 64}) == CODE


def test_macros_of_the_tuner_are_defined_where_they_are_used():
    text = "#ifdef kernel_tuner\nint g = grid_size_x + grid_size_y;\n#endif"
    rendered = with_tuner_macros(text, SPACE, ["ceil_div(problem_size_x, block_size_x)"], {"problem_size_x": 65})
    assert rendered.splitlines()[:6] == [
        "#define kernel_tuner 1",
        "#if block_size_x == 32",
        "#define grid_size_x 3",
        "#elif block_size_x == 64",
        "#define grid_size_x 2",
        "#endif",
    ]
    assert "#define grid_size_y 1\n#line 1\n#ifdef" in rendered
    assert uses_grid(text)
    assert not uses_grid(CODE)


def test_an_unroll_factor_of_zero_leaves_the_pragma_out():
    text = "  #pragma unroll loop_unroll_factor_k\nfor (;;);"
    rendered = with_tuner_macros(text, {"loop_unroll_factor_k": [0, 2]}, [], {})
    assert rendered == "#if loop_unroll_factor_k > 0\n  #pragma unroll loop_unroll_factor_k\n#endif\nfor (;;);"
    assert with_tuner_macros(text, {"loop_unroll_factor_k": [1, 2]}, [], {}) == text


def test_parameters_among_template_arguments():
    assert kernel_expression("add<float, tile * 2>", SPACE) == "add<float, {tile} * 2>"
    assert kernel_expression("tile", SPACE) == "tile"

"""References that leave integers known modulo a power of two."""

import pytest

from lab.operators.declared.declaration import declare
from lab.operators.declared.modulo import keeps_modulo

ARGUMENTS = {
    "y": "out int32[n]",
    "x": "int32[n]",
    "i": "int32[n]",
    "n": "int32",
    "factor": "float32",
}


def keeps(folder, reference, **changes):
    declaration, mistakes = declare(
        "k",
        arguments={**ARGUMENTS, **changes},
        reference={"y": reference},
        folder=folder,
        problem=["n", "factor"],
        parameters=(),
    )
    assert mistakes == ()
    assert declaration is not None
    return keeps_modulo(declaration)


@pytest.mark.parametrize(
    "reference",
    [
        "x",
        "x[::-1] * 3 + n",
        "cumsum(x * i)",
        "x // 2",
        "x >> 3",
        "where(x > i, x * i, -x)",
        "maximum(x, i) - minimum(x, i)",
        "sum(x[newaxis, :] * i[:, newaxis], axis=1)",
        "(x << 4) ^ i",
        "int64(x) * i",
        "roll(x, 1) if n > 4 else x",
    ],
)
def test_sums_products_and_choices_are_known(reference, tmp_path):
    assert keeps(tmp_path, reference)


@pytest.mark.parametrize(
    "reference",
    [
        "(x + i) // 2",
        "(x * i) % 7",
        "(x + 1) >> 1",
        "maximum(x + i, 0)",
        "abs(x - i)",
        "where(x + i > 0, x, i)",
        "where(x * i, x, i)",
        "x[i % n]",
        "x * factor",
        "x * 0.5",
        "sqrt(x)",
        "bincount(x, minlength=n)",
        "x / 2",
        "int64(x * i)",
    ],
)
def test_what_looks_at_sums_or_at_other_types_is_not(reference, tmp_path):
    assert not keeps(tmp_path, reference)


def test_outputs_and_inputs_of_other_types_are_not_known(tmp_path):
    assert not keeps(tmp_path, "x", y="out float32[n]")
    assert not keeps(tmp_path, "x", x="float32[n]")

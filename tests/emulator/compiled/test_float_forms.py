"""Both engines on one kernel with every form of this module: the same bits."""

import numpy as np
import pytest
import random_ptx

from lab.emulator.compiled import float_forms
from lab.emulator.compiled.ir import Code
from lab.emulator.opcodes import UnknownForm

OPERATIONS = [one for one in random_ptx.OPERATIONS if any(t in one for t in (".f32", ".f64")) and "cvt" not in one]


def test_both_engines_give_the_same_bits():
    for half in (OPERATIONS[::2], OPERATIONS[1::2]):
        kernel = random_ptx.kernel_of("; ".join(half))
        _, wanted = random_ptx.run(kernel, 6, "interpreted", count=False)
        compiled, found = random_ptx.run(kernel, 6, "compiled", count=False)
        assert compiled.engine == "compiled", compiled.not_compiled
        np.testing.assert_array_equal(found, wanted)


def test_numbers_are_written_exactly():
    assert float_forms.number("f32", 1.0) == "splat (float 0x3FF0000000000000)"
    assert float_forms.number("f64", -0.0) == "splat (double 0x8000000000000000)"


def test_the_canonical_nan_takes_one_test():
    code = Code()
    float_forms.canonical(code, "f32", "%a")
    assert "fcmp uno" in code.lines[0]
    assert len(code.lines) == 2


def test_halves_have_no_comparison_yet():
    with pytest.raises(UnknownForm, match="f16"):
        float_forms.comparison("lt", "f16", ftz=False)

"""Both engines on one kernel with every form of this module: the same bits."""

import numpy as np
import pytest
import random_ptx

from lab.emulator.compiled import integer_forms
from lab.emulator.compiled.ir import Code
from lab.emulator.opcodes import UnknownForm

OPERATIONS = [one for one in random_ptx.OPERATIONS if not any(t in one for t in (".f16", ".f32", ".f64", "cvt", "mov"))]


def test_both_engines_give_the_same_bits():
    kernel = random_ptx.kernel_of("; ".join(OPERATIONS))
    interpreted, wanted = random_ptx.run(kernel, 5, "interpreted")
    compiled, found = random_ptx.run(kernel, 5, "compiled")
    assert compiled.engine == "compiled", compiled.not_compiled
    np.testing.assert_array_equal(found, wanted)
    assert compiled.counts == interpreted.counts


def test_a_known_shift_needs_no_clamp():
    code = Code()
    code.constants["splat (i32 3)"] = 3
    integer_forms.shift_by(code, "shl", "b32", "%a", "splat (i32 3)")
    assert len(code.lines) == 1


def test_integers_have_no_unordered_test():
    with pytest.raises(UnknownForm, match="ltu"):
        integer_forms.comparison("ltu", "s32")

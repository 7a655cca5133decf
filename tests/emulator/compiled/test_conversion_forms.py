"""Both engines on one kernel with every form of this module: the same bits."""

import numpy as np
import pytest
import random_ptx

from lab.emulator.compiled import conversion_forms
from lab.emulator.opcodes import Opcode, UnknownForm

OPERATIONS = [one for one in random_ptx.OPERATIONS if one.startswith(("cvt", "mov"))]


def test_both_engines_give_the_same_bits():
    kernel = random_ptx.kernel_of("; ".join(OPERATIONS))
    _, wanted = random_ptx.run(kernel, 7, "interpreted", count=False)
    compiled, found = random_ptx.run(kernel, 7, "compiled", count=False)
    assert compiled.engine == "compiled", compiled.not_compiled
    np.testing.assert_array_equal(found, wanted)


def test_packing_has_elements_of_equal_size():
    assert conversion_forms.packing("b64", 2).ins == ("b32", "b32")
    with pytest.raises(UnknownForm, match="3 elements"):
        conversion_forms.unpacking("b16", 3)


@pytest.mark.parametrize("opcode", ["cvt.f32.s32", "cvt.rz.f32.f64", "cvt.rn.ftz.f64.s32"])
def test_a_conversion_without_a_form_is_refused(opcode):
    with pytest.raises(UnknownForm):
        conversion_forms.cvt(Opcode(opcode), 2)

"""Functions that leave the work to operands other than arrays."""

import numpy as np

from lab.emulator.primitives import delegate


class Recorder:
    def primitive(self, function, operands, options):
        return self, function, operands, options


def test_the_operand_that_is_no_array_computes_the_function():
    array, other = np.ones(2), Recorder()
    assert delegate("extremum", array, other, largest=True) == (other, "extremum", (array, other), {"largest": True})

"""Which stores count as progress."""

import numpy as np
from small_ptx import HEADER

from lab.emulator.api import launch
from lab.emulator.progress import MemoryProgress


def test_nothing_has_changed_at_first():
    assert MemoryProgress() == MemoryProgress(0, exact=False)


def test_a_loop_that_stores_one_value_forever_makes_no_progress():
    body = "ld.param.u64 %rd0, [a]; L: st.global.u32 [%rd0], 7; bra L; }"
    ptx = HEADER + ".visible .entry k(.param .u64 a) { .reg .b64 %rd<2>;" + body
    (finding,) = launch(ptx, "k", 1, 1, [np.zeros(1, np.uint32)], check=False, count=False).findings
    assert finding.kind == "endless-loop"

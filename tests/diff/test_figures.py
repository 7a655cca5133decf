from __future__ import annotations

from dataclasses import replace

import pytest
from diff_support import LOOP, SCALE, compiled, image, normal

from lab.diff.comparison import listed
from lab.diff.figures import figures_of, predicted_change

NONE = frozenset[int]()


def test_resources_and_loop():
    figures = figures_of(normal(LOOP, "dot"), (0, 0), NONE)
    assert figures.shared_bytes == 512
    assert figures.spill_bytes == 0
    assert (figures.threads, figures.threads_assumed) == (256, True)
    assert figures.loop.by_class["fma"] == figures.loop.by_class["ld.global"] // 2
    assert figures.loop.cycles > figures.loop.issue / 2
    assert ("/kernel.cu", 6) in figures.loop.lines


def test_launch_bounds_give_the_threads():
    figures = figures_of(normal(SCALE, "scale"), None, NONE)
    assert (figures.threads, figures.threads_assumed, figures.occupancy) == (256, False, 1.0)


def test_spills_by_the_marks_of_the_listing():
    source = """
    extern "C" __global__ void __launch_bounds__(1024) much(double *x)
    {
        double a[40];
        for (int i = 0; i < 40; i++) a[i] = x[i];
        for (int j = 0; j < x[50]; j++) for (int i = 0; i < 40; i++) a[i] = a[i] * a[(i + 1) % 40] + x[j];
        for (int i = 0; i < 40; i++) x[i] = a[i];
    }
    """
    kernel, listing = (
        normal(source, "much", "sm_90", "--maxrregcount=32"),
        compiled(source, "sm_90", "--maxrregcount=32"),
    )
    marks = listed(listing.disassembly).spills["much"]
    logged = image(source, "sm_90", "--maxrregcount=32").spills["much"]
    assert figures_of(kernel, None, marks).spill_bytes == sum(logged) > 0
    assert figures_of(kernel, None, marks).slow["local memory"] == len(marks)
    assert figures_of(kernel, None, marks).slow["FP64"] >= 40


def test_division_is_slow():
    divided = figures_of(
        normal(SCALE.replace("weights[i & 1]", "1.0f").replace("x[i] * ", "n / x[i] + x[i] / "), "scale"), None, NONE
    )
    assert divided.slow["division"] >= 1


@pytest.mark.parametrize(("cycles", "work", "ratio"), [(2.0, 1.0, 2.0), (2.0, 2.0, 1.0)])
def test_predicted_time_for_equal_work(cycles, work, ratio):
    base = figures_of(normal(LOOP, "dot"), None, NONE)
    assert base.loop is not None
    by_class = {cls: round(n * work) for cls, n in base.loop.by_class.items()}
    loop = replace(
        base.loop, by_class=by_class, cycles=base.loop.cycles * cycles, issue=base.loop.issue * work, latency=None
    )
    change = predicted_change(base, replace(base, loop=loop))
    assert change.ratio == pytest.approx(ratio)
    assert change.work == work
    assert change.low <= change.ratio <= change.high


def test_loops_of_unlike_work_are_not_compared():
    base = figures_of(normal(LOOP, "dot"), None, NONE)
    assert base.loop is not None
    loop = replace(base.loop, by_class={"fma": 1, "st.global": 7}, issue=5.0)
    assert predicted_change(base, replace(base, loop=loop)) is None
    assert predicted_change(base, base) is None

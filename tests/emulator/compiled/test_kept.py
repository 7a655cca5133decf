from dataclasses import replace

import pytest
import small_ptx

from lab.emulator.compiled.decoding import NotCompiled
from lab.emulator.compiled.kept import KernelMaker
from lab.emulator.compiled.native import forget
from lab.emulator.compiled.shadows import Watched
from lab.emulator.program import Program
from lab.isa.ptx.module import read_ptx

BODY = "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r1;"


def watched(width, *, copies=False):
    return Watched(shared=4, global_=width, copies=copies, extents={})


def maker(body=BODY, **changes):
    program = Program(read_ptx(small_ptx.kernel(body, ["out"])), "k")
    return replace(KernelMaker(program, {}, count=True, watched=None, folder=None), **changes)


def test_everything_that_decides_the_code_is_in_the_key():
    code_maker = maker()
    assert code_maker.key == maker().key
    others = [
        maker(BODY.replace("%tid.x", "%tid.y")),
        maker(count=False),
        maker(quick=True),
        maker(symbols={"a": 1}),
        maker(watched=watched(4)),
        maker(watched=watched(2)),
        maker(watched=watched(4, copies=True)),
    ]
    assert len({code_maker.key, *(other.key for other in others)}) == 1 + len(others)


def test_code_that_was_made_is_loaded_without_being_written(tmp_path, monkeypatch):
    forget()
    code_maker = maker(folder=tmp_path)
    assert not code_maker.ready
    compiled_code = code_maker.make()
    forget()
    assert code_maker.ready
    monkeypatch.setattr(KernelMaker, "write", None)
    loaded = code_maker.make()
    assert replace(compiled_code.code, text="") == replace(loaded.code, text="")
    assert compiled_code.code.sites
    forget()


def test_what_cannot_be_compiled_says_so():
    with pytest.raises(NotCompiled, match="clock"):
        maker("mov.u32 %r1, %clock;").make()

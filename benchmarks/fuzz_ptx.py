"""PTX whose tokens were mutated: it is read and executed by a small launch, or refused by an error of lab's own.

`benchmarks/fuzz.py` feeds these to `read_and_launch` under the name "launched PTX". The mutations keep most statements
whole, so that they get past the reader: an operand is exchanged for one of another kind, an opcode loses, gains or
changes a word, a number becomes a hostile one, a statement is dropped, doubled, moved or cut.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache
from pathlib import Path

import numpy as np

from lab.emulator.api import launch
from lab.emulator.compiled.decoding import NotCompiled
from lab.emulator.compiled.kernel_code import kernel_code
from lab.emulator.operations.table import ALU, SYSTEM
from lab.emulator.program import Program, size_of
from lab.isa.mix import kernel_mix
from lab.isa.model import Variable
from lab.isa.ptx.module import read_ptx

ROOT = Path(__file__).resolve().parents[1]
MOST_STEPS = 3000
"""Steps without progress of one launch."""

_HEAD = """.version 8.8
.target sm_100
.address_size 64
.global .align 8 .u64 table[2] = {helper, 0};
.const .align 4 .b32 words[4] = {1, 2, 3, 4};
.extern .shared .align 16 .b8 dynamic[];
.visible .func (.param .b32 result) helper(.param .b32 x, .param .align 8 .b8 pair[8])
{
.reg .b32 %r<4>;
ld.param.b32 %r1, [x];
ld.param.b32 %r2, [pair+4];
add.s32 %r3, %r1, %r2;
st.param.b32 [result], %r3;
ret;
}
.visible .entry tour(.param .u64 a, .param .u64 b, .param .u32 n, .param .f32 f, .param .align 8 .b8 s[16])
{
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<8>; .reg .f64 %fd<8>;
.reg .b128 %q<2>;
.shared .align 16 .b8 tile[256];
.local .align 8 .b8 stack[64];
.param .b32 out; .param .b32 in; .param .align 8 .b8 both[8];
ld.param.u64 %rd0, [a]; cvta.to.global.u64 %rd1, %rd0; ld.param.u32 %r0, [n]; ld.param.f32 %f0, [f];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; mov.b64 %rd5, tile; mov.u32 %r5, tile;
"""
_TAIL = """
st.param.b32 [in], %r1; st.param.v2.b32 [both], {%r2, %r3};
call.uni (out), helper, (in, both);
ld.param.b32 %r4, [out];
LOOP: add.s32 %r6, %r6, 1; setp.lt.s32 %p1, %r6, 3; @%p1 bra LOOP;
targets: .branchtargets ONE, TWO;
and.b32 %r7, %r1, 1; brx.idx %r7, targets;
ONE: st.global.b32 [%rd3], %r4;
TWO: bar.sync 0; ret;
}
"""
_STATEMENTS = """ld.global.f32 %f1, [%rd3]; ld.global.v2.f32 {%f1, %f2}, [%rd1+8]; ld.shared.b32 %r2, [tile+4];
ld.local.u8 %h1, [stack+3]; st.shared.v4.b32 [%rd5], {%r1, %r2, %r3, %r4}; st.local.b64 [stack], %rd1;
ld.const.b32 %r2, [words+4]; st.global.b16 [%rd3], %h1; add.cc.u32 %r2, %r1, %r0; addc.u32 %r3, %r2, 0;
sub.cc.s32 %r2, %r1, 5; subc.cc.u32 %r3, %r2, %r1; mad.lo.cc.u32 %r2, %r1, 3, %r0; madc.hi.u32 %r3, %r1, %r2, 0;
mul.hi.s64 %rd6, %rd1, %rd2; div.s32 %r2, %r1, %r0; rem.u64 %rd6, %rd1, 7; mul24.lo.u32 %r2, %r1, %r0;
sad.u32 %r2, %r1, %r0, 1; and.b32 %r2, %r1, 255; not.b64 %rd6, %rd1; lop3.b32 %r2, %r1, %r0, %r3, 0x96;
shf.l.wrap.b32 %r2, %r1, %r0, 3; shl.b32 %r2, %r1, 2; shr.s64 %rd6, %rd1, 3; popc.b32 %r2, %r1; clz.b64 %r2, %rd1;
bfind.shiftamt.u32 %r2, %r1; brev.b32 %r2, %r1; bfe.s32 %r2, %r1, 3, 5; bfi.b32 %r2, %r1, %r0, 2, 9;
bmsk.clamp.b32 %r2, %r1, 3; szext.wrap.s32 %r2, %r1, 4; prmt.b32 %r2, %r1, %r0, 0x3210;
dp4a.u32.s32 %r2, %r1, %r0, 1; dp2a.lo.s32.s32 %r2, %r1, %r0, 1; add.rn.ftz.sat.f32 %f1, %f0, 0f3F800000;
mul.rz.f64 %fd1, %fd2, 1.5; fma.rn.f16x2 %r2, %r1, %r0, %r3; div.full.f32 %f1, %f0, %f2; rcp.approx.ftz.f64 %fd1, %fd2;
sqrt.rn.f32 %f1, %f0; sin.approx.f32 %f1, %f0; ex2.approx.ftz.bf16x2 %r2, %r1; tanh.approx.f16 %h1, %h2;
neg.ftz.f32 %f1, %f0; copysign.f64 %fd1, %fd2, %fd3; min.NaN.xorsign.abs.f32 %f1, %f0, %f2; max.u32 %r2, %r1, %r0;
testp.finite.f32 %p1, %f0; setp.lt.and.f32 %p1|%p2, %f0, %f1, !%p3; set.eq.u32.f16x2 %r2, %r1, %r0;
selp.b32 %r2, %r1, %r0, %p1; slct.f32.s32 %f1, %f0, %f2, %r1; cvt.rni.s32.f32 %r2, %f0; cvt.rn.f16x2.f32 %r2, %f0, %f1;
cvt.rn.satfinite.e4m3x2.f32 %h1, %f0, %f1; cvt.rn.f16x2.e5m2x2 %r2, %h1; cvt.pack.sat.u8.s32.b32 %r2, %r1, %r0, %r3;
cvt.rna.tf32.f32 %r2, %f0; mov.b64 {%r2, %r3}, %rd1; mov.b32 %r2, {%h1, %h2}; mov.u64 %rd6, words; mov.u32 %r2, %clock;
cvta.shared.u64 %rd6, %rd5; isspacep.global %p1, %rd0; atom.global.add.u32 %r2, [%rd3], 1; red.shared.max.s32 [%r5], 3;
atom.shared.cas.b32 %r2, [tile], 0, 1; atom.global.exch.b64 %rd6, [%rd1], %rd2; fence.acq_rel.gpu; membar.cta;
shfl.sync.bfly.b32 %r2|%p1, %r1, 1, 31, -1; vote.sync.ballot.b32 %r2, %p1, -1; match.any.sync.b32 %r2, %r1, -1;
redux.sync.add.u32 %r2, %r1, -1; activemask.b32 %r2; elect.sync %r2|%p1, -1; bar.warp.sync -1; barrier.sync 1, 32;
bar.red.popc.u32 %r2, 0, %p1; prefetch.global.L2 [%rd1]; createpolicy.fractional.L2::evict_last.b64 %rd6, 1.0;
ld.global.L2::cache_hint.b32 %r2, [%rd3], %rd6; discard.global.L2 [%rd1], 128; nanosleep.u32 5;
cp.async.ca.shared.global [tile], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;
mbarrier.init.shared.b64 [tile+8], 32; mbarrier.arrive.shared.b64 _, [tile+8]; mbarrier.inval.shared.b64 [tile+8];
mbarrier.try_wait.parity.shared.b64 %p1, [tile+8], 0; cp.async.bulk.wait_group 0; mapa.shared::cluster.u32 %r2, %r5, 0;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [tile]; stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile], {%r2};
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, {%f1,%f2,%f3,%f4};
movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; vadd.u32.s32.sat %r2, %r1.b0, %r0.h1, 1;
vset2.s32.u32.lt %r2, %r1, %r0, %r3;
vabsdiff4.u32.u32.u32.add %r2, %r1, %r0, %r3; add.rn.f32x2 %rd6, %rd1, %rd2; fma.rn.f32x2 %rd6, %rd1, %rd2, %rd3;
barrier.cluster.arrive; barrier.cluster.wait; getctarank.shared::cluster.u32 %r2, %r5; griddepcontrol.wait; pmevent 1;
stacksave.u64 %rd6; alloca.u64 %rd6, 16; stackrestore.u64 %rd6; mov.v2.b32 {%r1, %r2}, {%r3, %r4}; trap; brkpt; exit;
tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, {%r1}]; setmaxnreg.inc.sync.aligned.u32 40; wgmma.fence.sync.aligned;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, [tile+8];
mov.b128 %q0, {%rd1, %rd2}; ld.global.b128 %q1, [%rd1]; addc.s64 %rd6, %rd1, %rd2; bfe.u64 %rd6, %rd1, %r1, 70;"""
_TOUR = [one.strip() + ";" for one in _STATEMENTS.split(";") if one.strip()]

_KINDS = (
    "%r1", "%rd1", "%f1", "%fd1", "%h1", "%p1", "!%p1", "%q1", "%tid.x", "%clock64", "%laneid", "0", "-1", "3.5",
    "0f3F800000", "0d3FF0000000000000", "[%rd1]", "[%r1]", "[%f1]", "[%p1]", "[tile]", "[a]", "[tile+400]", "[%rd1+-8]",
    "[0]", "[-1]", "[nothing]", "{%r1, %r2}", "{}", "{%f1}", "{%r1, %r2, %r3, %r4, %r5}", "_", "%p1|%p2", "%r1|%r2",
    "tile", "tile+4", "words", "helper", "nowhere", "LOOP", "table[1]", "(out)", "()", "generic(tile)", "0xFF(tile)",
    "%r1+4", "%v.x", "%r1.b0", "WARP_SZ", "[%rd1, {%r1, %r2}]", "[%rd1], 3",
)  # fmt: skip
_NUMBERS = (
    "0", "1", "-1", "3", "7", "31", "32", "33", "64", "255", "4096", "65536", "2147483648", "4294967296",
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "1099511627776", "99999999999999999999999",
    "0x7fffffffffffffff", "0xFFFFFFFFFFFFFFFFFFFF", "08", "1e400",
)  # fmt: skip
_WORDS = (
    "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "b8", "b16", "b32", "b64", "b128", "f16", "bf16", "f16x2",
    "bf16x2", "f32", "f64", "f32x2", "tf32", "e4m3x2", "e5m2x2", "pred", "v2", "v4", "v8", "global", "shared", "local",
    "const", "param", "shared::cluster", "shared::cta", "rn", "rz", "rni", "sat", "satfinite", "ftz", "relu", "lo",
    "hi",
    "wide", "cc", "sync", "aligned", "approx", "volatile", "relaxed", "gpu", "cta", "sys", "add", "cas", "NaN", "abs",
    "wrap", "clamp", "L2::cache_hint", "multicast::cluster", "uni", "x4", "trans", "nothing", "noftz", "mmio",
    "release",
)  # fmt: skip
_NUMBER = re.compile(r"(?<![\w%$.])\d+(?:\.\d+)?")
_STATEMENT = re.compile(r"[^;{}]+;|[{}]|[^;{}]+\Z")
_OPCODE = re.compile(r"(?m)^(\s*(?:@!?%?\w+\s+)?(?:\w+:\s*)?)([a-z][\w]*(?:\.[\w:]+)*)(\s+|;)")


@lru_cache(maxsize=1)
def corpus() -> tuple[str, ...]:
    """The texts that are mutated: golden listings, cut to their first kernel where they are long, and our own."""
    golden = [path.read_text() for path in sorted((ROOT / "tests" / "isa" / "golden").glob("*.ptx"))]
    return tuple(text for text in golden if len(text) < 40_000)  # noqa: PLR2004 - characters


def mutated_ptx(rng: random.Random) -> str:
    """Return a listing with a few of its tokens changed."""
    if rng.random() < 0.8:  # noqa: PLR2004 - most inputs are small, since they are read faster
        chosen = rng.sample(_TOUR, rng.choice((1, 1, 2, 4, 8)))
        changed = [_changed(one, rng) if rng.random() < 0.8 else one for one in chosen]  # noqa: PLR2004
        text = _HEAD + "\n".join(changed) + _TAIL
        return _changed_text(text, rng) if rng.random() < 0.3 else text  # noqa: PLR2004
    text = rng.choice(corpus())
    for _ in range(rng.choice((1, 2, 4))):
        text = _changed_text(text, rng)
    return text


def _changed_text(text: str, rng: random.Random) -> str:
    """Change one statement of a listing."""
    spans = [match.span() for match in _STATEMENT.finditer(text)] or [(0, len(text))]
    start, stop = rng.choice(spans)
    kind = rng.randrange(8)
    if kind == 0:
        return text[:start] + text[stop:]
    if kind == 1:
        return text[:stop] + text[start:stop] + text[stop:]
    if kind == 2:  # noqa: PLR2004 - kinds are numbered as they stand here
        return text[:stop] + " " + _changed(rng.choice(_TOUR), rng) + text[stop:]
    if kind == 3 and rng.random() < 0.3:  # noqa: PLR2004
        return text[: rng.randrange(len(text) + 1)]
    return text[:start] + _changed(text[start:stop], rng) + text[stop:]


def _changed(statement: str, rng: random.Random) -> str:
    """Change one token of a statement."""
    kind = rng.randrange(10)
    if kind <= 3:  # noqa: PLR2004
        return _other_operand(statement, rng)
    if kind <= 6:  # noqa: PLR2004
        return _OPCODE.sub(lambda match: match[1] + _other_opcode(match[2], rng) + match[3], statement, count=1)
    if kind <= 8:  # noqa: PLR2004
        places = [match.span() for match in _NUMBER.finditer(statement)]
        if places:
            start, stop = rng.choice(places)
            return statement[:start] + rng.choice(_NUMBERS) + statement[stop:]
        return _other_operand(statement, rng)
    words = statement.split(" ")
    words[rng.randrange(len(words))] = rng.choice((*_KINDS, *_WORDS, ".reg", ".align", "<4>", ",", "@%p1", "@", "="))
    return " ".join(words)


def _other_operand(statement: str, rng: random.Random) -> str:
    """Exchange, drop, double or add an operand."""
    match = _OPCODE.search(statement)
    if match is None or not match[3].isspace():
        return statement.replace(";", f" {rng.choice(_KINDS)};")
    head, rest = statement[: match.end()], statement[match.end() :]
    parts = re.findall(r"\{[^{}]*\}|\[[^\[\]]*\]|\([^()]*\)|[^,;]+", rest.partition(";")[0]) or [""]
    parts = [part for part in parts if part.strip()] or [""]
    at, kind = rng.randrange(len(parts)), rng.randrange(6)
    if kind == 0:
        del parts[at]
    elif kind == 1:
        parts.insert(at, rng.choice(_KINDS))
    elif kind == 2:  # noqa: PLR2004
        rng.shuffle(parts)
    else:
        parts[at] = rng.choice(_KINDS)
    return f"{head}{', '.join(parts)};{rest.partition(';')[2]}"


def _other_opcode(opcode: str, rng: random.Random) -> str:
    family, *words = opcode.split(".")
    kind = rng.randrange(6)
    if kind == 0:
        family = rng.choice([*ALU, *SYSTEM, "bra", "call", "ret", "brx", "exit", "bar", "barrier"])
    elif kind == 1 and words:
        del words[rng.randrange(len(words))]
    elif kind == 2:  # noqa: PLR2004
        words.insert(rng.randrange(len(words) + 1), rng.choice(_WORDS))
    elif words:
        words[rng.randrange(len(words))] = rng.choice(_WORDS)
    return ".".join([family, *words])


def read_and_launch(content: bytes, folder: Path) -> object:
    """Read a listing, take its mix, write its machine code's text and execute its first kernel."""
    del folder
    module = read_ptx(content.decode(), "fuzz.ptx")
    mixes: list[object] = [kernel_mix(module.isa, function) for function in module.kernels]
    if not module.kernels:
        return mixes
    kernel = module.kernels[0]
    program = Program(module, kernel.name)
    try:
        kernel_code(program, {}, count=True)
    except NotCompiled:
        mixes.append(None)
    arguments = [_argument(parameter) for parameter in kernel.parameters]
    even = len(content) % 2 == 0
    return launch(module, kernel.name, 1, 33 if even else 8, arguments, check=even, max_steps=MOST_STEPS)


def _argument(parameter: Variable) -> object:
    """A buffer for whatever may be a pointer, else zeros."""
    if parameter.type in ("u64", "b64", "s64") and parameter.count == 1 and parameter.vector == 1:
        return np.zeros(1024, np.float32)
    return bytes(size_of(parameter))

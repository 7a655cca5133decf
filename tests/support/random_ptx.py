"""Random PTX kernels without races: arithmetic, guards, branches that lanes take apart, loops, shared memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from small_ptx import HEADER

from lab.emulator.api import launch
from lab.emulator.results import Emulation, Engine

INTEGERS, WIDE, SINGLES, DOUBLES, FLAGS, SHORTS = 8, 5, 6, 4, 4, 4
WORDS = 1024  # of each thread's inputs, shared by all
_STORED = 4 * INTEGERS + 8 * WIDE + 4 * SINGLES + 8 * DOUBLES

# r, q, f, d, p, h: registers of 32 and 64 bits, singles, doubles, predicates and 16 bits; a capital is written.
_ARITHMETIC = """
add.s32 R, r, r | sub.s32 R, r, r | mul.lo.s32 R, r, r | mul.hi.s32 R, r, r | mul.hi.u32 R, r, r
mul.wide.s32 Q, r, r | mul.wide.u32 Q, r, r | mad.lo.s32 R, r, r, r | mad.hi.u32 R, r, r, r
mad.wide.s32 Q, r, r, q | add.s64 Q, q, q | sub.s64 Q, q, q | mul.lo.s64 Q, q, q | mul.hi.u64 Q, q, q
mul.hi.s64 Q, q, q | mad.lo.s64 Q, q, q, q | add.sat.s32 R, r, r | sub.sat.s32 R, r, r
add.cc.u32 R, r, r; addc.u32 R, r, r | sub.cc.u32 R, r, r; subc.cc.u32 R, r, r; addc.u32 R, r, r | add.u16 H, h, h
mul.lo.u16 H, h, h | mul.wide.u16 R, h, h | mul.wide.s16 R, h, h | sub.s16 H, h, h | max.s16 H, h, h
shl.b16 H, h, r | shr.s16 H, h, r | div.s32 R, r, r | div.u32 R, r, r | rem.s32 R, r, r | rem.u32 R, r, r
div.s64 Q, q, q | rem.u64 Q, q, q | div.u16 H, h, h | min.s32 R, r, r | max.u32 R, r, r | min.u64 Q, q, q
max.s64 Q, q, q | abs.s32 R, r | neg.s32 R, r | neg.s64 Q, q | sad.u32 R, r, r, r | sad.s32 R, r, r, r
and.b32 R, r, r | or.b64 Q, q, q | xor.b32 R, r, r | not.b32 R, r | not.b64 Q, q | cnot.b32 R, r | and.pred P, p, p
or.pred P, p, p | xor.pred P, p, p | not.pred P, p | lop3.b32 R, r, r, r, 0xE8 | lop3.b32 R, r, r, r, 0x96
shl.b32 R, r, r | shr.s32 R, r, r | shr.u32 R, r, r | shl.b64 Q, q, r | shr.s64 Q, q, r | shl.b32 R, r, 7
shr.u32 R, r, 33 | shr.s32 R, r, 31 | shf.l.wrap.b32 R, r, r, r | shf.r.clamp.b32 R, r, r, r
shf.l.clamp.b32 R, r, r, r | popc.b32 R, r | popc.b64 R, q | clz.b32 R, r | clz.b64 R, q | bfind.s32 R, r
bfind.shiftamt.u32 R, r | bfind.u64 R, q | brev.b32 R, r | brev.b64 Q, q | bfe.u32 R, r, r, r | bfe.s32 R, r, r, r
bfe.s32 R, r, 5, 9 | bfe.u64 Q, q, r, r | bfe.s64 Q, q, r, r | bfi.b32 R, r, r, r, r | bfi.b64 Q, q, q, r, r
prmt.b32 R, r, r, r | prmt.b32 R, r, r, 0x3201 | selp.b32 R, r, r, p | selp.f32 F, f, f, p | selp.f64 D, d, d, p
slct.s32.f32 R, r, r, f | slct.f32.s32 F, f, f, r | set.lt.u32.s32 R, r, r | set.gt.f32.f32 F, f, f
set.leu.and.u32.f32 R, f, f, p | add.f32 F, f, f | sub.f32 F, f, f | mul.f32 F, f, f | fma.rn.f32 F, f, f, f
add.ftz.f32 F, f, f | mul.sat.f32 F, f, f | fma.rn.ftz.f32 F, f, f, f | fma.rn.sat.f32 F, f, f, f
fma.rm.f32 F, f, f, f | fma.rp.f32 F, f, f, f | fma.rz.f32 F, f, f, f | add.rz.f32 F, f, f | sub.rm.f32 F, f, f
mul.rp.f32 F, f, f | mul.rz.ftz.f32 F, f, f | div.rn.f32 F, f, f | div.full.f32 F, f, f | div.approx.ftz.f32 F, f, f
rcp.rn.f32 F, f | rcp.approx.ftz.f32 F, f | sqrt.rn.f32 F, f | sqrt.approx.f32 F, f | rsqrt.approx.f32 F, f
min.f32 F, f, f | max.f32 F, f, f | max.NaN.f32 F, f, f | min.ftz.f32 F, f, f | abs.f32 F, f | neg.f32 F, f
neg.ftz.f32 F, f | copysign.f32 F, f, f | add.f64 D, d, d | sub.f64 D, d, d | mul.f64 D, d, d
fma.rn.f64 D, d, d, d | div.rn.f64 D, d, d | rcp.rn.f64 D, d | sqrt.rn.f64 D, d | min.f64 D, d, d | max.f64 D, d, d
abs.f64 D, d | neg.f64 D, d | ex2.approx.ftz.f32 F, f | ex2.approx.f32 F, f | lg2.approx.f32 F, f
sin.approx.f32 F, f | cos.approx.ftz.f32 F, f | tanh.approx.f32 F, f | testp.finite.f32 P, f
testp.subnormal.f32 P, f | testp.normal.f64 P, d | testp.notanumber.f32 P, f | cvt.s32.s16 R, h | cvt.u32.u16 R, h
cvt.u16.u32 H, r | cvt.s64.s32 Q, r | cvt.u64.u32 Q, r | cvt.u32.u64 R, q | cvt.s8.s32 R, r | cvt.sat.s16.s32 H, r
cvt.sat.u8.s32 R, r | cvt.sat.u32.s64 R, q | cvt.rn.f32.s32 F, r | cvt.rn.f32.u64 F, q | cvt.rn.f64.s64 D, q
cvt.rn.sat.f32.u32 F, r | cvt.rzi.s32.f32 R, f | cvt.rni.u32.f32 R, f | cvt.rmi.s64.f32 Q, f | cvt.rpi.u64.f64 Q, d
cvt.rzi.s32.f64 R, d | cvt.rzi.u16.f32 H, f | cvt.rzi.ftz.s8.f32 R, f | cvt.f64.f32 D, f | cvt.rn.f32.f64 F, d
cvt.rni.f32.f32 F, f | cvt.rzi.f64.f64 D, d | cvt.sat.f32.f32 F, f | cvt.ftz.f32.f32 F, f | cvt.rn.f16.f32 H, f
cvt.f32.f16 F, h | cvt.rni.s32.f16 R, h | setp.lt.s32 P, r, r | setp.hi.u32 P, r, r | setp.eq.s64 P, q, q
setp.ge.u16 P, h, h | setp.lt.f32 P, f, f | setp.neu.f32 P, f, f | setp.ne.f32 P, f, f | setp.equ.ftz.f32 P, f, f
setp.nan.f64 P, d, d | setp.le.f64 P, d, d | setp.gt.and.s32 P, r, r, p | setp.lt.or.f32 P, f, f, !p | mov.b32 R, f
mov.b32 F, r | mov.b64 D, q | mov.b64 Q, d | mov.u32 R, r | mov.f32 F, f | mov.f64 D, d | mov.b64 Q, {r, r}
mov.b64 {R, R}, q | mov.b32 R, {h, h} | mov.b32 {H, H}, r | mov.u32 R, %laneid | mov.u32 R, %tid.x
mov.u32 R, %ctaid.x | mov.u32 R, %lanemask_lt | activemask.b32 R
"""
OPERATIONS = tuple(one.strip() for line in _ARITHMETIC.strip().splitlines() for one in line.split("|"))
_COUNTS = {"r": INTEGERS, "q": WIDE, "f": SINGLES, "d": DOUBLES, "p": FLAGS, "h": SHORTS}
_NAMES = {"r": "%r", "q": "%q", "f": "%f", "d": "%d", "p": "%p", "h": "%h"}
_TOGETHER = (
    "shfl.sync.bfly.b32 R, r, 5, 31, -1",
    "shfl.sync.idx.b32 R, r, r, 31, -1",
    "shfl.sync.down.b32 R|P, r, 3, 0x180F, -1",
    "shfl.sync.up.b32 R, r, 2, 0, -1",
    "vote.sync.ballot.b32 R, p, -1",
    "vote.sync.any.pred P, p, -1",
    "vote.sync.all.pred P, !p, -1",
    "vote.sync.uni.pred P, p, -1",
)


@dataclass(frozen=True, slots=True)
class RandomKernel:
    """A kernel `k(in, out)` and the size of its launch.

    Attributes:
        ptx: The module.
        grid: Blocks.
        block: Threads along x, y, z.
        stored: Bytes of each thread's results.
    """

    ptx: str
    grid: int
    block: tuple[int, int, int]
    stored: int = _STORED

    @property
    def threads(self) -> int:
        """Threads of the launch."""
        x, y, z = self.block
        return self.grid * x * y * z


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311  a test's choices
        self.lines: list[str] = []
        self.labels = 0

    def register(self, kind: str) -> str:
        return f"{_NAMES[kind]}{self.rng.randrange(_COUNTS[kind])}"

    def target(self, kind: str) -> str:
        return self.register(kind)

    def filled(self, text: str) -> str:
        """Replace an operation's letters by registers; some sources become literals."""
        opcode, _, rest = text.partition(" ")
        pieces = []
        for piece in rest.replace("{", "{ ").replace("}", " }").replace(",", " ,").replace("|", " | ").split(" "):
            letter = piece.removeprefix("!").lower()
            if letter in _NAMES and len(letter) == 1:
                pieces.append(piece[:-1] + (self.target(letter) if piece[-1].isupper() else self.register(letter)))
            else:
                pieces.append(piece)
        body = " ".join(pieces)
        return f"{opcode} {body}"

    def operation(self) -> None:
        """Write a few operations, perhaps guarded."""
        for one in self.rng.choice(OPERATIONS).split("; "):
            guard = ""
            if self.rng.random() < 0.25:
                guard = f"@{self.rng.choice(('', '!'))}{self.register('p')} "
            self.lines.append(f"{guard}{self.filled(one)};")

    def load(self) -> None:
        """Read the inputs anywhere."""
        kind, t, vector = self.rng.choice(
            (("r", "u32", 1), ("f", "f32", 1), ("q", "u64", 1), ("d", "f64", 1), ("r", "b32", 4), ("f", "f32", 2),
             ("r", "u8", 1), ("h", "u16", 1), ("r", "s16", 1), ("d", "f64", 2))
        )  # fmt: skip
        width = {"8": 1, "16": 2, "32": 4, "64": 8}[t[1:]] * vector
        names = [f"{_NAMES[kind]}{i}" for i in self.rng.sample(range(_COUNTS[kind]), vector)]
        self.lines.append(f"and.b32 %x0, {self.register('r')}, {(WORDS * 4 - 1) & -width};")
        self.lines.append("cvt.u64.u32 %y0, %x0; add.s64 %y0, %y0, %y1;")
        target = names[0] if vector == 1 else "{" + ", ".join(names) + "}"
        guard = f"@{self.register('p')} " if self.rng.random() < 0.3 else ""
        form = f".v{vector}" if vector > 1 else ""
        self.lines.append(f"{guard}ld.global{form}.{t} {target}, [%y0];")

    def exchange(self) -> None:
        """Pass a value through shared memory, between two barriers; or between the lanes of whole warps."""
        if self.rng.random() < 0.5:
            self.lines.append(self.filled(self.rng.choice(_TOGETHER)) + ";")
            return
        r, to = self.register("r"), self.register("r")
        turn = self.rng.randrange(32)
        self.lines += [
            f"st.shared.u32 [%x1], {r};",
            "bar.sync 0;",
            f"xor.b32 %x0, %x3, {turn}; min.u32 %x0, %x0, %x4; shl.b32 %x0, %x0, 2; add.s32 %x0, %x0, %x5;",
            f"ld.shared.u32 {to}, [%x0];",
            "bar.sync 0;",
        ]

    def block(self, depth: int, *, together: bool) -> None:
        """Write some statements; `together`: all threads of the block are here."""
        for _ in range(self.rng.randrange(2, 6)):
            choice = self.rng.random()
            if choice < 0.55 or depth == 0:
                self.operation()
            elif choice < 0.65:
                self.load()
            elif choice < 0.75 and together:
                self.exchange()
            elif choice < 0.9:
                self.branch(depth)
            else:
                self.loop(depth)

    def branch(self, depth: int) -> None:
        self.labels += 1
        n = self.labels
        p = self.register("p")
        self.lines.append(f"@{self.rng.choice(('', '!'))}{p} bra $E{n};")
        self.block(depth - 1, together=False)
        if self.rng.random() < 0.5:
            self.lines.append(f"bra $F{n};\n$E{n}:")
            self.block(depth - 1, together=False)
            self.lines.append(f"$F{n}:")
        else:
            self.lines.append(f"$E{n}:")

    def loop(self, depth: int) -> None:
        """Write a loop of a thread's own length."""
        self.labels += 1
        n = self.labels
        self.lines.append(f"and.b32 %n{n}, {self.register('r')}, 3;\n$L{n}:")
        self.block(depth - 1, together=False)
        if self.rng.random() < 0.3:
            self.lines.append(f"@{self.register('p')} bra $M{n};")
        self.lines += [f"add.s32 %n{n}, %n{n}, -1; setp.gt.s32 %c{n}, %n{n}, 0; @%c{n} bra $L{n};", f"$M{n}:"]


class _SeparateWriter(_Writer):
    """Gives each result a register of its own, which is stored at the end."""

    def __init__(self) -> None:
        super().__init__(1)
        self.targets: list[tuple[str, str]] = []

    def target(self, kind: str) -> str:
        self.targets.append((kind, f"%t{len(self.targets)}"))
        return self.targets[-1][1]


def random_kernel(seed: int) -> RandomKernel:
    """Return the kernel of a seed."""
    writer = _Writer(seed)
    rng = writer.rng
    block = rng.choice(((32, 1, 1), (64, 1, 1), (48, 1, 1), (16, 4, 1), (8, 3, 2), (96, 1, 1)))
    size = block[0] * block[1] * block[2]
    for _ in range(rng.randrange(2, 5)):
        writer.block(3, together=size % 32 == 0)
    if rng.random() < 0.3:
        writer.lines.append(f"@{writer.register('p')} exit;" if rng.random() < 0.3 else "")
    return RandomKernel(_module(writer.lines, writer.labels), rng.randrange(1, 4), block)


_KINDS = {"q": ("b64", 8), "d": ("f64", 8), "r": ("b32", 4), "f": ("f32", 4), "h": ("b16", 2), "p": ("pred", 4)}


def kernel_of_each(operations: Sequence[str]) -> RandomKernel:
    """Return a kernel that stores the results of every operation, whose sources are the inputs."""
    writer = _SeparateWriter()
    lines = [writer.filled(one) + ";" for group in operations for one in group.split("; ")]
    tail, offset = [], 0
    for kind, (t, width) in _KINDS.items():  # the widest first, so that all are aligned
        lines = [f".reg .{t} {name};" for one, name in writer.targets if one == kind] + lines
        for name in (name for one, name in writer.targets if one == kind):
            if kind == "p":
                tail.append(f"selp.b32 %x0, 1, 0, {name};")
            tail.append(f"st.global.{'b32' if kind == 'p' else t} [%y0+{offset}], {'%x0' if kind == 'p' else name};")
            offset += 4 if kind == "h" else width
    stored = -(-offset // 8) * 8
    return RandomKernel(_module(lines, 0, tail, stored), 1, (256, 1, 1), stored)


def _module(lines: list[str], labels: int, stores: Sequence[str] = (), stored: int = _STORED) -> str:
    head = [
        "mov.u32 %x0, %tid.y; mov.u32 %x3, %ntid.x; mov.u32 %x4, %tid.x; mad.lo.s32 %x3, %x0, %x3, %x4;",
        "mov.u32 %x0, %tid.z; mov.u32 %x4, %ntid.x; mul.lo.s32 %x0, %x0, %x4; mov.u32 %x4, %ntid.y;",
        "mad.lo.s32 %x3, %x0, %x4, %x3;",  # the thread in its block
        "mov.u32 %x4, %ntid.x; mov.u32 %x0, %ntid.y; mul.lo.s32 %x4, %x4, %x0; mov.u32 %x0, %ntid.z;",
        "mul.lo.s32 %x4, %x4, %x0; mov.u32 %x0, %ctaid.x; mad.lo.s32 %x6, %x0, %x4, %x3; add.s32 %x4, %x4, -1;",
        "mov.u32 %x5, s; shl.b32 %x1, %x3, 2; add.s32 %x1, %x1, %x5;",
        "ld.param.u64 %y1, [in]; cvta.to.global.u64 %y1, %y1; ld.param.u64 %y2, [out]; cvta.to.global.u64 %y2, %y2;",
    ]
    place = 0
    for kind, t, width in (("r", "u32", 4), ("q", "u64", 8), ("f", "f32", 4), ("d", "f64", 8), ("h", "u16", 2)):
        for i in range(_COUNTS[kind]):
            place += 97
            head.append(
                f"mad.lo.s32 %x0, %x6, {place % 31 * 2 + 1}, {place}; and.b32 %x0, %x0, {(WORDS * 4 // width) - 1}; "
                f"mul.wide.u32 %y0, %x0, {width}; add.s64 %y0, %y0, %y1; ld.global.{t} {_NAMES[kind]}{i}, [%y0];"
            )
    head += [f"setp.lt.s32 %p{i}, %r{i}, %r{i + 1};" for i in range(FLAGS)]
    tail = [f"mul.wide.u32 %y0, %x6, {stored}; add.s64 %y0, %y0, %y2;", *(stores or _all_registers())]
    counters = "".join(f".reg .b32 %n{n}; .reg .pred %c{n};\n" for n in range(1, labels + 1))
    registers = (
        f".reg .b32 %r<{INTEGERS}>, %x<8>; .reg .b64 %q<{WIDE}>, %y<4>; .reg .f32 %f<{SINGLES}>; "
        f".reg .f64 %d<{DOUBLES}>; .reg .pred %p<{FLAGS}>; .reg .b16 %h<{SHORTS}>;\n"
        f"{counters}.shared .align 4 .b8 s[512];"
    )
    body = "\n".join((*head, *lines, *tail))
    return f"{HEADER}.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n{registers}\n{body}\nret;\n}}\n"


def _all_registers() -> list[str]:
    """Store every register, behind %y0; predicates and short ones within others."""
    tail = [f"selp.b32 %x0, 1, 0, %p{i}; add.s32 %r{i}, %r{i}, %x0;" for i in range(FLAGS)]
    tail += [f"cvt.u32.u16 %x0, %h{i}; xor.b32 %r{i + 4}, %r{i + 4}, %x0;" for i in range(SHORTS)]
    offset = 0
    for kind, t, width in (("q", "u64", 8), ("d", "f64", 8), ("r", "u32", 4), ("f", "f32", 4)):
        for i in range(_COUNTS[kind]):
            tail.append(f"st.global.{t} [%y0+{offset}], {_NAMES[kind]}{i};")
            offset += width
    return tail


def numbers(seed: int) -> NDArray[np.uint32]:
    """Return inputs: random bits, moderate floats, small integers and floats with a meaning of their own."""
    rng = np.random.default_rng(seed)
    words: NDArray[np.uint32] = rng.integers(0, 1 << 32, WORDS, np.uint32)
    words[1::4] = rng.standard_normal(len(words[1::4])).astype(np.float32).view(np.uint32)
    words[2::8] = rng.integers(-40, 40, len(words[2::8])).astype(np.int32).view(np.uint32)
    special = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFFA00000, 1, 0x80000001, 0x007FFFFF, 0x7F7FFFFF,
               0x3F800000, 0x7EFFFFFF, 0xFFFFFFFF, 0x00800000]  # fmt: skip
    words[3::8] = rng.choice(np.array(special, np.uint32), len(words[3::8]))
    return words


def agreed(kernel: RandomKernel, seed: int, **options: Any) -> tuple[Emulation, Emulation]:
    """Execute a kernel by both engines, check that they store the same bits, and return the two emulations."""
    interpreted, wanted = run(kernel, seed, "interpreted", **options)
    compiled, compiled_out = run(kernel, seed, "compiled", **options)
    assert compiled.engine == "compiled", compiled.not_compiled
    np.testing.assert_array_equal(compiled_out, wanted)
    return interpreted, compiled


def run(kernel: RandomKernel, seed: int, engine: Engine, **options: Any) -> tuple[Emulation, NDArray[np.uint8]]:
    """Execute a kernel; return the emulation and what it stored, (threads, bytes)."""
    out = np.zeros((kernel.threads, kernel.stored), np.uint8)
    settings = {"check": False, **options}
    emulation = launch(kernel.ptx, "k", kernel.grid, kernel.block, [numbers(seed), out], engine=engine, **settings)
    return emulation, out

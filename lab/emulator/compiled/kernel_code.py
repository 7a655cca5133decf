"""A kernel's whole LLVM module: the code of a warp, what runs the warps of blocks, and the functions that they call."""

from __future__ import annotations

from dataclasses import dataclass

from lab.emulator.compiled import accesses, copies, layout, patterns
from lab.emulator.compiled.decoding import Decoder
from lab.emulator.compiled.float_forms import SPECIAL
from lab.emulator.compiled.ir import BITS_VECTOR, LANES, splat, vector, words
from lab.emulator.compiled.warp_code import CountedSite, WarpCode, local_stride
from lab.emulator.program import Program

_V = words(32)


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The module of a kernel, and what its host must know.

    Attributes:
        text: LLVM IR; ``i32 run(context, first, stop)`` executes blocks and returns one of `layout`'s results.
        sites: The memory instructions that keep patterns, in order.
        guarded: Positions of the instructions with a guard, in the order of their counts.
        counters: The number of i64 counts.
        state_bytes: Size of a warp's state.
        local_stride: Bytes from one thread's local memory to the next one's; 0 without local memory.
    """

    text: str
    sites: tuple[CountedSite, ...]
    guarded: tuple[int, ...]
    counters: int
    state_bytes: int
    local_stride: int


def kernel_code(program: Program, symbols: dict[str, int], *, count: bool) -> KernelCode:
    """Write a kernel's module.

    Args:
        program: The kernel.
        symbols: Addresses of module variables.
        count: Count instructions and traffic.

    Raises:
        NotCompiled: something is not supported.
    """
    decoder = Decoder(program, symbols)
    warp = WarpCode(decoder, count=count)
    step = warp.write()
    parts = [
        patterns.DECLARATIONS,
        accesses.DECLARATIONS,
        _INTRINSICS,
        _SPECIAL if "@special(" in step else "",
        patterns.missed(count=count),
    ]
    for kind, space, bits, elements, update in warp.needs:
        if kind == "copied":
            parts.append(copies.COPIED)
        elif kind == "load":
            parts.append(accesses.load(space, bits, elements))
        elif kind == "store":
            parts.append(accesses.store(space, bits, elements))
        else:
            parts.append(accesses.atomic(space, bits, update))
    stride = local_stride(program) if program.local_bytes else 0
    parts += [step, _driver(warp, program, stride), _ATTRIBUTES]
    return KernelCode("\n".join(parts), tuple(warp.sites), tuple(warp.guarded), warp.counters, warp.state_bytes, stride)


_ATTRIBUTES = """
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
!0 = !{!"branch_weights", i32 1000, i32 1}
"""


def _intrinsics() -> str:
    lines = ["declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"]
    for name in ("umin", "umax", "smin", "smax"):
        lines += [f"declare {words(b)} @llvm.{name}.v{LANES}i{b}({words(b)}, {words(b)})" for b in (8, 16, 32, 64)]
    lines.append("declare i32 @llvm.umin.i32(i32, i32)")
    for name in ("ctpop", "bitreverse"):
        lines += [f"declare {words(b)} @llvm.{name}.v{LANES}i{b}({words(b)})" for b in (32, 64)]
    lines += [f"declare {words(b)} @llvm.ctlz.v{LANES}i{b}({words(b)}, i1)" for b in (32, 64)]
    lines += [f"declare {words(32)} @llvm.s{name}.sat.v{LANES}i32({words(32)}, {words(32)})" for name in ("add", "sub")]
    for t in ("f32", "f64"):
        ty, stem = vector(t), f"v{LANES}f{t[1:]}"
        lines += [
            f"declare {ty} @llvm.{name}.{stem}({ty})"
            for name in ("fabs", "sqrt", "roundeven", "trunc", "floor", "ceil")
        ]
        lines.append(f"declare {ty} @llvm.copysign.{stem}({ty}, {ty})")
        lines.append(f"declare {ty} @llvm.fma.{stem}({ty}, {ty}, {ty})")
        lines.append(f"declare {BITS_VECTOR} @llvm.is.fpclass.{stem}({ty}, i32)")
    for bits in (8, 16):  # local memory
        pointers = accesses.words_of_pointers()
        lines.append(
            f"declare {words(bits)} @llvm.masked.gather.v{LANES}i{bits}.v{LANES}p0({pointers}, {BITS_VECTOR}, "
            f"{words(bits)})"
        )
        lines.append(
            f"declare void @llvm.masked.scatter.v{LANES}i{bits}.v{LANES}p0({words(bits)}, {pointers}, {BITS_VECTOR})"
        )
    return "\n".join(lines)


_INTRINSICS = _intrinsics()

_C_NAMES = {"sin": "sin", "cos": "cos", "lg2": "log2", "ex2": "exp2", "tanh": "tanh"}
_NEAR = 64
"""How near a double may come to a boundary of rounding, in units of its last place, before NumPy is asked: libraries
differ in the last few."""

_SPECIAL = f"""
{"".join(f"declare double @{name}(double)" + chr(10) for name in _C_NAMES.values())}
define internal {vector("f32")} @special({vector("f32")} %x, i32 %which, ptr %callback) noinline #0 {{
entry:
  %buffer = alloca {vector("f32")}, align 128
  store {vector("f32")} %x, ptr %buffer, align 128
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  %at = getelementptr float, ptr %buffer, i32 %i
  %single = load float, ptr %at
  %a = fpext float %single to double
  switch i32 %which, label %unknown [ {" ".join(f"i32 {i}, label %do{i}" for i in range(len(SPECIAL)))} ]
{
    "".join(
        f"do{i}:{chr(10)}  %y{i} = call double @{_C_NAMES[name]}(double %a){chr(10)}  br label %look{chr(10)}"
        for i, name in enumerate(SPECIAL)
    )
}unknown:
  unreachable
look:
  %y = phi double {", ".join(f"[ %y{i}, %do{i} ]" for i in range(len(SPECIAL)))}
  %bits = bitcast double %y to i64
  %low = and i64 %bits, {(1 << 29) - 1}
  %from = sub i64 %low, {(1 << 28) - _NEAR}
  %near = icmp ult i64 %from, {2 * _NEAR}
  %size = and i64 %bits, {(1 << 63) - 1}
  %small = icmp ult i64 %size, {(1023 - 125) << 52}
  %some = icmp ne i64 %size, 0
  %tiny = and i1 %small, %some
  %doubt = or i1 %near, %tiny
  br i1 %doubt, label %ask, label %next
ask:
  %z = call double %callback(i32 %which, double %a)
  br label %next
next:
  %result = phi double [ %y, %look ], [ %z, %ask ]
  %rounded = fptrunc double %result to float
  store float %rounded, ptr %at
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, {LANES}
  br i1 %more, label %loop, label %done
done:
  %all = load {vector("f32")}, ptr %buffer, align 128
  ret {vector("f32")} %all
}}
"""


def _field(name: str, type_: str = "i64") -> str:
    return f"""
  %{name}_at = getelementptr i8, ptr %context, i64 {layout.CONTEXT[name]}
  %{name} = load {type_}, ptr %{name}_at, align 8"""


def _driver(warp: WarpCode, program: Program, stride: int) -> str:
    """Return ``@run``, which executes blocks one after another, their warps from barrier to barrier."""
    fields = "".join(_field(name) for name in ("shared_bytes", "warps", "nctaid_x", "nctaid_y"))
    fields += "".join(_field(name, "ptr") for name in ("shared", "local", "states", "exists", "stop"))
    zeroed = "".join(
        f"""
  %z{i} = getelementptr i8, ptr %state, i64 {offset}
  call void @llvm.memset.p0.i64(ptr align 4 %z{i}, i8 0, i64 {size}, i1 false)"""
        for i, (offset, size) in enumerate(warp.zeroed)
    )
    local = (
        f"""
  %local_size = mul i64 %warps, {LANES * stride}
  call void @llvm.memset.p0.i64(ptr align 64 %local, i8 0, i64 %local_size, i1 false)"""
        if stride
        else ""
    )
    entry = program.priority[program.entries[0]]
    places = "".join(
        f"""
  %c{axis} = getelementptr i8, ptr %context, i64 {layout.CONTEXT[f"ctaid_{axis}"]}
  store i64 %{axis}, ptr %c{axis}, align 8"""
        for axis in "xyz"
    )
    return f"""
define i32 @run(ptr %context, i64 %first, i64 %last) #0 {{
entry:{fields}
  %plane = mul i64 %nctaid_x, %nctaid_y
  br label %block
block:
  %b = phi i64 [ %first, %entry ], [ %b1, %finished ]
  %halted = load volatile i64, ptr %stop, align 8
  %go = icmp eq i64 %halted, 0
  %some = icmp ult i64 %b, %last
  %on = and i1 %go, %some
  br i1 %on, label %begin, label %out
begin:
  %x = urem i64 %b, %nctaid_x
  %yq = udiv i64 %b, %nctaid_x
  %y = urem i64 %yq, %nctaid_y
  %z = udiv i64 %b, %plane{places}
  call void @llvm.memset.p0.i64(ptr align 64 %shared, i8 0, i64 %shared_bytes, i1 false){local}
  br label %init
init:
  %w = phi i64 [ 0, %begin ], [ %w1, %init ]
  %at = mul i64 %w, {warp.state_bytes}
  %state = getelementptr i8, ptr %states, i64 %at
  store {_V} {splat(entry, 32)}, ptr %state, align 128
  %eq = getelementptr i32, ptr %exists, i64 %w
  %e = load i32, ptr %eq
  %aliveq = getelementptr i8, ptr %state, i64 {layout.ALIVE}
  store i32 %e, ptr %aliveq
  %waitq = getelementptr i8, ptr %state, i64 {layout.WAITING}
  store i32 0, ptr %waitq
  %parkq = getelementptr i8, ptr %state, i64 {layout.PARKED}
  store i32 0, ptr %parkq{zeroed}
  %w1 = add i64 %w, 1
  %w_more = icmp ult i64 %w1, %warps
  br i1 %w_more, label %init, label %phase
phase:
  br label %warp
warp:
  %v = phi i64 [ 0, %phase ], [ %v1, %skip ]
  %waits = phi i64 [ 0, %phase ], [ %waits1, %skip ]
  %v_at = mul i64 %v, {warp.state_bytes}
  %v_state = getelementptr i8, ptr %states, i64 %v_at
  %v_aliveq = getelementptr i8, ptr %v_state, i64 {layout.ALIVE}
  %v_alive = load i32, ptr %v_aliveq
  %dead = icmp eq i32 %v_alive, 0
  br i1 %dead, label %skip, label %run
run:
  %number = trunc i64 %v to i32
  %r = call i32 @step(ptr %context, ptr %v_state, i32 %number)
  %failed = icmp ugt i32 %r, {layout.WAITS}
  br i1 %failed, label %fail, label %ran
ran:
  %r64 = zext i32 %r to i64
  br label %skip
skip:
  %one = phi i64 [ 0, %warp ], [ %r64, %ran ]
  %waits1 = add i64 %waits, %one
  %v1 = add i64 %v, 1
  %v_more = icmp ult i64 %v1, %warps
  br i1 %v_more, label %warp, label %look
look:
  %none = icmp eq i64 %waits1, 0
  br i1 %none, label %finished, label %release
release:
  %u = phi i64 [ 0, %look ], [ %u1, %same ]
  %u_at = mul i64 %u, {warp.state_bytes}
  %u_state = getelementptr i8, ptr %states, i64 %u_at
  %u_eq = getelementptr i32, ptr %exists, i64 %u
  %u_e = load i32, ptr %u_eq
  %u_waitq = getelementptr i8, ptr %u_state, i64 {layout.WAITING}
  %u_wait = load i32, ptr %u_waitq
  %u_barq = getelementptr i8, ptr %u_state, i64 {layout.BARRIER}
  %u_bar = load i32, ptr %u_barq
  %b_barq = getelementptr i8, ptr %states, i64 {layout.BARRIER}
  %b_bar = load i32, ptr %b_barq
  %all_here = icmp eq i32 %u_wait, %u_e
  %one_bar = icmp eq i32 %u_bar, %b_bar
  %met = and i1 %all_here, %one_bar
  store i32 0, ptr %u_waitq
  br i1 %met, label %same, label %apart
same:
  %u1 = add i64 %u, 1
  %u_more = icmp ult i64 %u1, %warps
  br i1 %u_more, label %release, label %phase
apart:
  ret i32 {layout.FAULT}
fail:
  ret i32 %r
finished:
  %b1 = add i64 %b, 1
  br label %block
out:
  ret i32 0
}}
"""

"""A kernel's LLVM module: the code of a warp, the driver over warps and blocks, and helper functions."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lab.emulator.compiled import accesses, copies, layout, patterns, shadows
from lab.emulator.compiled.decoding import Decoder
from lab.emulator.compiled.ir import BITS_VECTOR, LANES, signed, splat, vector, words
from lab.emulator.compiled.primitive_code import SPECIAL
from lab.emulator.compiled.shadows import LAST_TIME, TIME_SHIFT, Watched
from lab.emulator.compiled.warp_code import CountedSite, WarpCode, local_stride
from lab.emulator.program import Program

_V = words(32)


@dataclass(frozen=True, slots=True)
class KernelCode:
    """A kernel's module and its metadata for the host.

    Attributes:
        text: LLVM IR; ``i32 run(context, first, stop)`` executes blocks and returns one of `layout`'s results.
        sites: The memory instructions with patterns, in order.
        guarded: Positions of guarded instructions, in the order of their counts.
        counters: The number of i64 counts.
        state_bytes: Size of a warp's state.
        local_stride: Local-memory stride between threads, in bytes; 0 without local memory.
        ordered: Blocks must run in order: sums of floats depend on it.
    """

    text: str
    sites: tuple[CountedSite, ...]
    guarded: tuple[int, ...]
    counters: int
    state_bytes: int
    local_stride: int
    ordered: bool

    @property
    def about(self) -> str:
        """The metadata as JSON."""
        facts = [self.guarded, self.counters, self.state_bytes, self.local_stride, self.ordered]
        return json.dumps([[[site.position, site.key, site.width] for site in self.sites], *facts])

    @classmethod
    def from_about(cls, about: str) -> KernelCode:
        """Return the module for the metadata `about`, without its text."""
        sites, guarded, counters, *remaining = json.loads(about)
        return cls("", tuple(CountedSite(*site) for site in sites), tuple(guarded), counters, *remaining)


def kernel_code(
    program: Program, symbols: dict[str, int], *, count: bool, watched: Watched | None = None
) -> KernelCode:
    """Generate a kernel's module.

    Args:
        program: The kernel.
        symbols: Addresses of module variables.
        count: Count instructions and traffic.
        watched: The checks for races and reads of unwritten memory; None for no checks.

    Raises:
        NotCompiled: something is not supported.
    """
    decoder = Decoder(program, symbols)
    warp = WarpCode(decoder, count=count, watched=watched)
    step = warp.write()
    parts = [
        patterns.DECLARATIONS,
        accesses.DECLARATIONS,
        _INTRINSICS,
        _SPECIAL if "@special(" in step else "",
        patterns.missed(count=count, watch=watched is not None),
    ]
    watched_accesses: dict[tuple[str, str, int], None] = {}
    for kind, space, bits, elements, update in warp.needs:
        if kind == "copied":
            parts.append(copies.COPIED)
            continue
        granule = 0 if watched is None else watched.granule(space)
        access = accesses.MovedBytes(kind, space, bits, elements, granule, counted=count and kind == "atomic")
        if kind == "load":
            parts.append(accesses.load(access))
        elif kind == "store":
            parts.append(accesses.store(access))
        else:
            parts.append(accesses.atomic(access, update))
        if watched is not None:
            watched_accesses[kind, space, access.cells] = None
    if count and any(kind == "atomic" for kind, *_ in warp.needs):
        parts.append(patterns.MISSED_ATOMIC)
    if watched is not None:
        parts += [shadows.watch(*key, watched.granule(key[1]), copies=watched.copies) for key in watched_accesses]
    stride = local_stride(program) if program.local_bytes else 0
    parts += [step, _driver(warp, program, stride, watched), _ATTRIBUTES]
    return KernelCode(
        "\n".join(parts),
        tuple(warp.sites),
        tuple(warp.guarded),
        warp.counters,
        warp.state_bytes,
        stride,
        decoder.ordered,
    )


_ATTRIBUTES = """
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
!0 = !{!"branch_weights", i32 1000, i32 1}
"""


def _intrinsics() -> str:
    lines = ["declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"]
    for name in ("umin", "umax", "smin", "smax"):
        lines += [f"declare {words(b)} @llvm.{name}.v{LANES}i{b}({words(b)}, {words(b)})" for b in (8, 16, 32, 64)]
    lines += [f"declare i32 @llvm.{name}.i32(i32, i32)" for name in ("umin", "smax")]
    for name in ("ctpop", "bitreverse"):
        lines += [f"declare {words(b)} @llvm.{name}.v{LANES}i{b}({words(b)})" for b in (32, 64)]
    lines += [f"declare {words(b)} @llvm.ctlz.v{LANES}i{b}({words(b)}, i1)" for b in (32, 64)]
    for t in ("f32", "f64"):
        ty, stem = vector(t), f"v{LANES}f{t[1:]}"
        lines += [
            f"declare {ty} @llvm.{name}.{stem}({ty})"
            for name in ("fabs", "sqrt", "roundeven", "trunc", "floor", "ceil")
        ]
        lines.append(f"declare {ty} @llvm.copysign.{stem}({ty}, {ty})")
        lines.append(f"declare {ty} @llvm.fma.{stem}({ty}, {ty}, {ty})")
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
"""The distance in ulp from a rounding boundary below which NumPy computes instead: libraries differ there."""

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


@dataclass(frozen=True, slots=True)
class _Driver:
    """Extra IR at some places of the driver: empty without checks."""

    begin: str = ""
    init: str = ""
    meet: str = ""
    met: str = "meet"
    seen: str = ""
    release: str = ""
    again: str = ""
    finish: str = ""
    ended: str = "finished"
    late: str = ""


def _watched_driver() -> _Driver:
    """Return the driver IR of a checked launch: it keeps the time and the visible cp.async groups."""
    context, step = layout.CONTEXT, 1 << TIME_SHIFT
    last, half = (signed(time << TIME_SHIFT, 32) for time in (LAST_TIME, LAST_TIME // 2))

    def at(name: str) -> str:
        return f"getelementptr i8, ptr %context, i64 {context[name]}"

    return _Driver(
        begin=f"""
  %lw_at = {at("local_written")}
  %first_at = {at("first")}
  %time_at = {at("time")}
  %since_at = {at("since")}
  %begun_at = {at("begun")}
  %visible_at = {at("visible")}
  %groups_at = {at("groups")}
  %suspects_at = {at("suspects")}
  %block_threads = mul i64 %warps, {LANES}
  %threads_before = mul i64 %b, %block_threads
  %first_thread = add i64 %threads_before, 1
  store i64 %first_thread, ptr %first_at, align 8
  %groups = load i32, ptr %groups_at, align 4
  store i32 %groups, ptr %visible_at, align 4
  %many_groups = icmp ugt i32 %groups, {1 << 30}
  br i1 %many_groups, label %late, label %few
few:
  %time0 = load i32, ptr %time_at, align 4
  %old = icmp ugt i32 %time0, {half}
  br i1 %old, label %forget, label %recall
forget:
  %fw_at = {at("writes")}
  %fw = load ptr, ptr %fw_at, align 8
  %fr_at = {at("reads")}
  %fr = load ptr, ptr %fr_at, align 8
  %fs_at = {at("shadow_bytes")}
  %fs = load i64, ptr %fs_at, align 8
  call void @llvm.memset.p0.i64(ptr align 64 %fw, i8 0, i64 %fs, i1 false)
  call void @llvm.memset.p0.i64(ptr align 64 %fr, i8 0, i64 %fs, i1 false)
  br label %recall
recall:
  %time1 = phi i32 [ %time0, %few ], [ 0, %forget ]
  %time2 = add i32 %time1, {step}
  store i32 %time2, ptr %time_at, align 4
  store i32 %time2, ptr %since_at, align 4
  store i32 %time2, ptr %begun_at, align 4""",
        init=f"""
  %metq = getelementptr i8, ptr %state, i64 {layout.MET}
  store i32 %time2, ptr %metq
  %cmq = getelementptr i8, ptr %state, i64 {layout.COMMITTED}
  store i32 %groups, ptr %cmq
  %cpq = getelementptr i8, ptr %state, i64 {layout.COMPLETED}
  store i32 %groups, ptr %cpq
  %coq = getelementptr i8, ptr %state, i64 {layout.COPIED}
  store i32 0, ptr %coq""",
        meet=f"""
  %time3 = load i32, ptr %time_at, align 4
  %time4 = add i32 %time3, {step}
  %too_late = icmp uge i32 %time4, {last}
  br i1 %too_late, label %late, label %timely
timely:
  store i32 %time4, ptr %time_at, align 4
  store i32 %time4, ptr %since_at, align 4""",
        met="timely",
        seen=f"""
  %seen = phi i32 [ {0x7FFFFFFF}, %timely ], [ %seen1, %same ]""",
        release=f"""
  %u_metq = getelementptr i8, ptr %u_state, i64 {layout.MET}
  store i32 %time4, ptr %u_metq
  %u_cpq = getelementptr i8, ptr %u_state, i64 {layout.COMPLETED}
  %u_cp = load i32, ptr %u_cpq
  %seen1 = call i32 @llvm.umin.i32(i32 %seen, i32 %u_cp)""",
        again="""
  store i32 %seen1, ptr %visible_at, align 4""",
        finish=f"""
  br label %highest
highest:
  %h = phi i64 [ 0, %finished ], [ %h1, %highest ]
  %top = phi i32 [ %groups, %finished ], [ %top1, %highest ]
  %h_at = mul i64 %h, @STATE@
  %h_state = getelementptr i8, ptr %states, i64 %h_at
  %h_cmq = getelementptr i8, ptr %h_state, i64 {layout.COMMITTED}
  %h_cm = load i32, ptr %h_cmq
  %top1 = call i32 @llvm.umax.i32(i32 %top, i32 %h_cm)
  %h1 = add i64 %h, 1
  %h_more = icmp ult i64 %h1, %warps
  br i1 %h_more, label %highest, label %counted
counted:
  %groups1 = add i32 %top1, 1
  store i32 %groups1, ptr %groups_at, align 4""",
        ended="counted",
        late=f"""late:
  store i64 1, ptr %suspects_at, align 8
  ret i32 {layout.FAULT}
""",
    )


def _driver(warp: WarpCode, program: Program, stride: int, watched: Watched | None) -> str:
    """Return ``@run``, which executes blocks one after another, and their warps from barrier to barrier."""
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
    watch = _watched_driver() if watched is not None else _Driver()
    if stride and watched is not None:
        local += """
  %lw = load ptr, ptr %lw_at, align 8
  call void @llvm.memset.p0.i64(ptr align 64 %lw, i8 0, i64 %local_size, i1 false)"""
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
  %b = phi i64 [ %first, %entry ], [ %b1, %{watch.ended} ]
  %some = icmp ult i64 %b, %last
  br i1 %some, label %begin, label %out
begin:
  %x = urem i64 %b, %nctaid_x
  %yq = udiv i64 %b, %nctaid_x
  %y = urem i64 %yq, %nctaid_y
  %z = udiv i64 %b, %plane{places}{watch.begin}
  call void @llvm.memset.p0.i64(ptr align 64 %shared, i8 0, i64 %shared_bytes, i1 false){local}
  br label %begun
begun:
  br label %init
init:
  %w = phi i64 [ 0, %begun ], [ %w1, %init ]
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
  store i32 0, ptr %parkq{watch.init}{zeroed}
  %w1 = add i64 %w, 1
  %w_more = icmp ult i64 %w1, %warps
  br i1 %w_more, label %init, label %phase
phase:
  %halted = load volatile i64, ptr %stop, align 8
  %go = icmp eq i64 %halted, 0
  br i1 %go, label %warp, label %stopped
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
  br i1 %none, label %finished, label %meet
meet:{watch.meet}
  br label %release
release:
  %u = phi i64 [ 0, %{watch.met} ], [ %u1, %same ]{watch.seen}
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
  store i32 0, ptr %u_waitq{watch.release}
  br i1 %met, label %same, label %apart
same:
  %u1 = add i64 %u, 1
  %u_more = icmp ult i64 %u1, %warps
  br i1 %u_more, label %release, label %again
again:{watch.again}
  br label %phase
apart:
  ret i32 {layout.FAULT}
{watch.late}fail:
  ret i32 %r
finished:{watch.finish.replace("@STATE@", str(warp.state_bytes))}
  %b1 = add i64 %b, 1
  br label %block
out:
  ret i32 0
stopped:
  ret i32 {layout.STOPPED}
}}
"""

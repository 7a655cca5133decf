"""Code generation for one warp: every basic block for its active lanes, divergence and reconvergence.

Lanes of a warp at the same block form a group. The group whose block is first in the program's order runs, as in the
interpreter: so diverged threads reconverge at the same points, and all counts agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lab.emulator.binding import SINK
from lab.emulator.compiled import accesses, layout
from lab.emulator.compiled.decoding import (
    AsyncCopy,
    CopyGroups,
    Decoder,
    MemoryAccess,
    NotCompiled,
    Operation,
    WarpOperation,
)
from lab.emulator.compiled.ir import (
    BITS_VECTOR,
    IOTA,
    LANES,
    Code,
    bits_of,
    element,
    lanes_of,
    signed,
    splat,
    vector,
    words,
)
from lab.emulator.compiled.primitive_code import canonical
from lab.emulator.compiled.shadows import LAST_TIME, TIME_SHIFT, Watched
from lab.emulator.compiled.tracing import Traced, trace
from lab.emulator.control import CodeBlock, is_gate
from lab.emulator.errors import text_of
from lab.emulator.memory.memory import SHARED_SEGMENT, SHARED_WINDOW
from lab.emulator.opcodes import DTYPES, UnknownForm
from lab.emulator.program import Program
from lab.isa.model import Instruction

_V, _W = words(32), words(64)
_ADDRESS_BITS = 64
_EVERY_LANE = 0xFFFFFFFF
_STATE_ALIGNMENT = 256


GLOBAL_ATOMIC = "global.atomic"
"""The site key of global-memory atomics."""

COPY = "copy"
"""The site key of a cp.async, whose cost is counted on both sides."""


@dataclass(frozen=True, slots=True)
class CountedSite:
    """The counting site of an instruction's traffic.

    Attributes:
        position: Index of the instruction.
        key: A key of `ExecutedCounts.memory`; `COPY` for both sides of a cp.async; empty for no counting.
        width: Bytes of a lane's access.
    """

    position: int
    key: str
    width: int


@dataclass(frozen=True, slots=True)
class _Transfer:
    """A memory access at one point of the code.

    Attributes:
        position: Index of the instruction.
        access: The access.
        lanes: The active lanes, an i32.
        values: The stored values, as integers; empty for a load.
        counted: Its traffic is counted separately.
        group: The group number of a cp.async, an i32; 0 for other accesses.
    """

    position: int
    access: MemoryAccess
    lanes: str
    values: Sequence[str]
    counted: bool = True
    group: str = "0"


class WarpCode:
    """Generates the function ``@step(context, state, warp)``.

    Attributes:
        sites: The memory instructions with patterns, in order.
        guarded: Positions of guarded instructions, in the order of their counts.
        state_bytes: Size of a warp's state.
        zeroed: Byte ranges of the state that must be zero at the start: registers that may be read before a write.
        needs: The access functions called: their kind, space, bits, elements and update.
    """

    def __init__(self, decoder: Decoder, *, count: bool, watched: Watched | None = None) -> None:
        """Lay out the state.

        Args:
            decoder: The kernel.
            count: Count visits and guards.
            watched: The checks for races and reads of unwritten memory; None for no checks.
        """
        self._decoder, self._program, self._count = decoder, decoder.program, count
        self._watched = watched
        self._code = Code()
        self.sites: list[CountedSite] = []
        self.needs: dict[tuple[str, str, int, int, str], None] = {}
        program = self._program
        self.guarded = [
            i
            for block in decoder.blocks
            for i in (*range(block.first, block.stop), *([] if block.end is None else [block.end]))
            if program.code[i][1].predicate
        ]
        self._guard_at = {position: i for i, position in enumerate(self.guarded)}
        self._slots: dict[str, int] = {}
        offset = layout.REGISTERS
        live = frozenset[str]().union(*decoder.live.values()) if decoder.live else frozenset()
        for name in sorted(live, key=lambda register: (-bits_of(decoder.type_of(register) or "b32"), register)):
            self._slots[name] = offset
            bits = bits_of(decoder.type_of(name) or "b32")
            offset += 4 if bits == 1 else LANES * bits // 8
        self.state_bytes = -(-offset // _STATE_ALIGNMENT) * _STATE_ALIGNMENT
        self.zeroed = [
            (self._slots[name], 4 if self._bits(name) == 1 else LANES * self._bits(name) // 8)
            for name in sorted(decoder.live[decoder.blocks[0].index] if decoder.blocks else ())
        ]
        self._values: dict[str, tuple[str, str]] = {}
        self._loose_values: set[str] = set()
        self._mask, self._lanes = "", ""
        self._block: CodeBlock = decoder.blocks[0]

    def _bits(self, name: str) -> int:
        return bits_of(self._decoder.type_of(name) or "b32")

    @property
    def counters(self) -> int:
        """The number of i64 counts: warps and threads of each block, then threads of each guard."""
        return 2 * len(self._program.blocks) + len(self.guarded)

    # --- the function -----------------------------------------------------------------------------------------

    def write(self) -> str:
        """Generate the function's IR.

        Raises:
            NotCompiled: something is not supported.
        """
        code, program = self._code, self._program
        code.lines.append("define internal i32 @step(ptr %context, ptr noalias %state, i32 %warp) #0 {")
        code.label("entry")
        code.do("%out = alloca [512 x i8], align 64")
        code.do("%scratch = alloca [256 x i8], align 64")
        code.do("%group = alloca i32, align 4")
        code.do("%others = alloca i32, align 4")
        code.do("%next = alloca i32, align 4")
        code.do("%fuel = alloca i64, align 8")
        for name in (
            "params",
            "table",
            "shared",
            "local",
            "counts",
            "sites",
            "tids",
            "callback",
            "copied",
            "local_written",
            "stop",
        ):
            code.do(f"%{name}_at = getelementptr i8, ptr %context, i64 {layout.CONTEXT[name]}")
            code.do(f"%{name} = load ptr, ptr %{name}_at, align 8")
        for name in ("segments", "shared_bytes"):
            code.do(f"%{name}_at = getelementptr i8, ptr %context, i64 {layout.CONTEXT[name]}")
            code.do(f"%{name} = load i64, ptr %{name}_at, align 8")
        rounds = code.field("%context", layout.CONTEXT["fuel"], "i64", 8)
        code.do(f"store i64 {rounds}, ptr %fuel, align 8")
        code.do("br label %dispatch")
        self._write_dispatch()
        for block in self._decoder.blocks:
            self._write_block(block)
        for name, value in (
            ("fault", layout.FAULT),
            ("parted", layout.PARTED),
            ("spins", layout.SPINS),
            ("stopped", layout.STOPPED),
        ):
            code.label(name)
            code.do(f"ret i32 {value}")
        code.label("suspect")
        code.set_field("%context", layout.CONTEXT["suspects"], "i64", "1", 8)
        code.do("br label %fault")
        code.lines.append("}")
        ranks = {program.priority[block.index] for block in self._decoder.blocks}
        if len(ranks) != len(self._decoder.blocks):
            raise NotCompiled("blocks without a unique order")
        return "\n".join(code.lines)

    def _write_dispatch(self) -> None:
        """Emit the choice of the next group: the lanes whose block ranks first."""
        code, ranks = self._code, self._program.priority
        code.label("requeue")
        group_mask = code.mask(code.op("load i32, ptr %group"))
        rank = code.spread("i32", code.op("load i32, ptr %next"))
        old = code.op(f"load {_V}, ptr %state, align 128")
        code.do(f"store {_V} {code.select(group_mask, _V, rank, old)}, ptr %state, align 128")
        code.do("br label %dispatch")
        code.label("dispatch")
        alive = code.field("%state", layout.ALIVE, "i32")
        waiting = code.field("%state", layout.WAITING, "i32")
        parked = code.field("%state", layout.PARKED, "i32")
        ready = code.op(f"and i32 {alive}, {code.op(f'xor i32 {waiting}, -1')}")
        free = code.op(f"and i32 {ready}, {code.op(f'xor i32 {parked}, -1')}")
        none = code.op(f"icmp eq i32 {free}, 0")
        code.do(f"br i1 {none}, label %idle, label %choose")
        code.label("idle")
        lost = code.op(f"icmp ne i32 {parked}, 0")
        code.do(f"br i1 {lost}, label %parted, label %rest")
        code.label("rest")
        ended = code.op(f"icmp eq i32 {alive}, 0")
        code.do(f"ret i32 {code.op(f'select i1 {ended}, i32 {layout.ENDED}, i32 {layout.WAITS}')}")
        code.label("choose")
        places = code.op(f"load {_V}, ptr %state, align 128")
        far = splat(layout.NOWHERE, 32)
        least = f"call i32 @llvm.vector.reduce.umin.v{LANES}i32({_V}"
        low = code.op(f"{least} {code.select(code.mask(free), _V, places, far)})")
        at_lowest = code.bits(code.op(f"icmp eq {_V} {places}, {code.spread('i32', low)}"))
        group = code.op(f"and i32 {at_lowest}, {ready}")
        away = code.op(f"xor i32 {group}, -1")
        code.set_field("%state", layout.PARKED, "i32", code.op(f"and i32 {parked}, {away}"))
        code.do(f"store i32 {group}, ptr %group")
        other_mask = code.mask(code.op(f"and i32 {ready}, {away}"))
        code.do(f"store i32 {code.op(f'{least} {code.select(other_mask, _V, places, far)})')}, ptr %others")
        cases = " ".join(f"i32 {ranks[b.index]}, label %b{b.index}" for b in self._decoder.blocks)
        code.do(f"switch i32 {low}, label %fault [ {cases} ]")

    # --- blocks -----------------------------------------------------------------------------------------------

    def _write_block(self, block: CodeBlock) -> None:
        code, program = self._code, self._program
        self._block = block
        self._values, self._loose_values = {}, set()
        code.label(f"b{block.index}")
        self._lanes = code.op("load i32, ptr %group")
        self._mask = code.mask(self._lanes)
        if block.gate:
            self._write_gate(block)
        if self._count:
            code.add_to("%counts", 16 * block.index, "1")
            code.add_to("%counts", 16 * block.index + 8, code.population(self._lanes))
        live = self._decoder.live_after(block)
        last: dict[str, int] = {}
        for position in range(block.first, block.stop):
            for name in self._decoder.writes(position):
                last[name] = position
        for position in range(block.first, block.stop):
            instruction = program.code[position][1]
            guard = self._guard(position, instruction)
            self._write_instruction(position, guard)
            for name in dict.fromkeys(self._decoder.writes(position)):
                if last[name] == position and name in live:
                    self._keep(name)
        self._write_end(block)

    def _write_gate(self, block: CodeBlock) -> None:
        """Emit the wait for the lanes an instruction names."""
        code = self._code
        instruction = self._program.code[block.first][1]
        required = "-1"
        decoded = self._decoder.decoded[block.first]
        text = decoded.members if isinstance(decoded, WarpOperation) else (instruction.operands or ("0xffffffff",))[0]
        members = self._read(block.first, text, "b32")
        constant = code.constants.get(members)
        if constant is None:
            chosen = code.select(self._mask, _V, members, "zeroinitializer")
            required = code.op(f"call i32 @llvm.vector.reduce.or.v{LANES}i32({_V} {chosen})")
        else:
            required = str(signed(constant, 32))
        alive = code.field("%state", layout.ALIVE, "i32")
        absent = code.op(f"and i32 {alive}, {code.op(f'xor i32 {self._lanes}, -1')}")
        missing = code.op(f"and i32 {absent}, {required}")
        complete, wait = code.fresh("met"), code.fresh("park")
        code.do(f"br i1 {code.op(f'icmp eq i32 {missing}, 0')}, label %{complete}, label %{wait}")
        code.label(wait)
        parked = code.field("%state", layout.PARKED, "i32")
        code.set_field("%state", layout.PARKED, "i32", code.op(f"or i32 {parked}, {self._lanes}"))
        code.do(f"store i32 {self._program.priority[block.index]}, ptr %next")
        code.do("br label %requeue")
        code.label(complete)
        if self._watched is not None and not isinstance(decoded, WarpOperation):
            self._note_meeting(members)

    def _note_meeting(self, members: str) -> None:
        """Emit the clock advance at a full-warp sync, which orders earlier accesses before later ones."""
        code = self._code
        exists = code.field("%context", layout.CONTEXT["exists"], "ptr", 8)
        number = code.op("zext i32 %warp to i64")
        everyone = code.op(f"load i32, ptr {code.op(f'getelementptr i32, ptr {exists}, i64 {number}')}")
        together = code.op(f"icmp eq i32 {self._lanes}, {everyone}")
        lacking = code.op(f"and {_V} {code.spread('i32', everyone)}, {code.op(f'xor {_V} {members}, splat (i32 -1)')}")
        lacks = code.bits(code.op(f"icmp ne {_V} {lacking}, zeroinitializer"))
        complete = code.op(f"icmp eq i32 {code.op(f'and i32 {lacks}, {self._lanes}')}, 0")
        meet, after = code.fresh("meet"), code.fresh("after")
        code.do(f"br i1 {code.op(f'and i1 {together}, {complete}')}, label %{meet}, label %{after}")
        code.label(meet)
        time = code.op(f"add i32 {code.field('%context', layout.CONTEXT['time'], 'i32')}, {1 << TIME_SHIFT}")
        late = code.op(f"icmp uge i32 {time}, {signed(LAST_TIME << TIME_SHIFT, 32)}")
        timely = code.fresh("timely")
        code.do(f"br i1 {late}, label %suspect, label %{timely}")
        code.label(timely)
        code.set_field("%context", layout.CONTEXT["time"], "i32", time)
        code.set_field("%state", layout.MET, "i32", time)
        code.do(f"br label %{after}")
        code.label(after)

    def _guard(self, position: int, instruction: Instruction) -> str | None:
        """Return the active lanes with a true guard as i1s, counting them; None without a guard."""
        if instruction.predicate is None:
            return None
        code = self._code
        flags = self._read(position, instruction.predicate, "pred")
        if instruction.negated:
            flags = code.invert(flags)
        guard = code.op(f"and {BITS_VECTOR} {self._mask}, {flags}")
        if self._count:
            at = 16 * len(self._program.blocks) + 8 * self._guard_at[position]
            code.add_to("%counts", at, code.population(code.bits(guard)))
        return guard

    # --- registers --------------------------------------------------------------------------------------------

    def _slot(self, name: str) -> str:
        return self._code.op(f"getelementptr i8, ptr %state, i64 {self._slots[name]}")

    def _current(self, name: str) -> tuple[str, str]:
        """Return a register's current value and its LLVM type."""
        current = self._values.get(name)
        if current is None:
            code, declared = self._code, self._decoder.type_of(name) or "b32"
            if name not in self._slots:  # never live at a block's start: nothing was written to it
                current = "zeroinitializer", vector(declared)
            elif declared == "pred":
                current = code.mask(code.op(f"load i32, ptr {self._slot(name)}")), BITS_VECTOR
            else:
                current = (
                    code.op(f"load {vector(declared)}, ptr {self._slot(name)}, {_aligned(declared)}"),
                    vector(declared),
                )
            if name in self._decoder.loose:
                self._loose_values.add(name)
            self._values[name] = current
        return current

    def _read(self, position: int, text: str, t: str, *, tolerant: bool = False) -> str:
        """Return an operand in type t.

        Raises:
            NotCompiled: the operand is unknown or does not fit the type.
        """
        code = self._code
        if text.startswith("!"):
            return code.invert(self._read(position, text[1:].strip(), "pred"))
        declared = self._decoder.type_of(text)
        if declared is None:
            if text in self._decoder.special:
                return self._fit(self._special(text), t)
            return self._constant(position, text, t)
        value, type_ = self._current(text)
        if text in self._loose_values and not tolerant:
            value = self._canonical(declared, value)
            self._values[text] = value, type_
            self._loose_values.discard(text)
        if declared == "pred" or t == "pred":
            if declared != t:
                raise NotCompiled(f"{text} in .{t}")
            return value
        have, want = bits_of(declared), bits_of(t)
        if have < want:
            raise NotCompiled(f"{text} is narrower than .{t}")
        if have == want:
            return code.bitcast(type_, value, vector(t))
        cut = code.op(f"trunc {words(have)} {code.bitcast(type_, value, words(have))} to {words(want)}")
        return code.bitcast(words(want), cut, vector(t))

    def _canonical(self, t: str, value: str) -> str:
        """Replace every NaN of floats by the canonical NaN."""
        return canonical(Traced(self._code, DTYPES[t], value)).name

    def _fit(self, special: tuple[str, int], t: str) -> str:
        value, bits = special
        want = bits_of(t)
        if t == "pred":
            raise NotCompiled("a special register as a predicate")
        if bits != want:
            conversion = "trunc" if bits > want else "zext"
            value = self._code.op(f"{conversion} {words(bits)} {value} to {words(want)}")
        return self._code.bitcast(words(want), value, vector(t))

    def _constant(self, position: int, text: str, t: str) -> str:
        bits = self._decoder.constant(position, text, t)
        if t == "pred":
            return f"splat (i1 {'true' if bits else 'false'})"
        constant = splat(bits, bits_of(t))
        if element(t).startswith("i"):
            self._code.constants[constant] = bits
            return constant
        return f"bitcast ({words(bits_of(t))} {constant} to {vector(t)})"

    def _special(self, name: str) -> tuple[str, int]:
        """Return a special register's value and bit width.

        Raises:
            NotCompiled: the register is not supported.
        """
        code = self._code
        stem, _, axis = name[1:].partition(".")
        if stem == "tid" and axis:
            start = code.op("mul i32 %warp, 384")
            row = code.op(f"getelementptr i8, ptr %tids, i32 {start}")
            at = code.op(f"getelementptr i8, ptr {row}, i64 {128 * 'xyz'.index(axis)}")
            return code.op(f"load {_V}, ptr {at}, align 64"), 32
        if stem in ("ntid", "ctaid", "nctaid") and axis:
            return self._uniform(f"{stem}_{axis}"), 32
        if stem in ("total_smem_size", "dynamic_smem_size"):
            return self._uniform("shared_bytes" if stem[0] == "t" else "dynamic_bytes"), 32
        if stem == "warpid":
            return code.spread("i32", "%warp"), 32
        fixed = {"nwarpid": 64, "smid": 0, "nsmid": 1}.get(stem)
        if fixed is not None:
            return splat(fixed, 32), 32
        masks = {
            "laneid": list(range(LANES)),
            "lanemask_eq": [1 << lane for lane in range(LANES)],
            "lanemask_lt": [(1 << lane) - 1 for lane in range(LANES)],
            "lanemask_le": [(2 << lane) - 1 for lane in range(LANES)],
            "lanemask_gt": [~((2 << lane) - 1) for lane in range(LANES)],
            "lanemask_ge": [~((1 << lane) - 1) for lane in range(LANES)],
        }.get(stem)
        if masks is None:
            raise NotCompiled(f"the register {name}")
        return lanes_of(masks), 32

    def _uniform(self, name: str) -> str:
        code = self._code
        wide = code.field("%context", layout.CONTEXT[name], "i64", 8)
        return code.spread("i32", code.op(f"trunc i64 {wide} to i32"))

    def _set(self, name: str, t: str, value: str, guard: str | None, *, loose: bool = False) -> None:
        """Write a register, sign-extended by type t if it is wider.

        Raises:
            NotCompiled: the register cannot hold the type.
        """
        if name == SINK:
            return
        code = self._code
        declared = self._decoder.type_of(name)
        if declared is None or (declared == "pred") != (t == "pred") or bits_of(declared) < bits_of(t):
            raise NotCompiled(f"{name} cannot hold .{t}")
        if loose and name not in self._decoder.loose:
            value, loose = self._canonical(t, value), False
        type_ = vector(t)
        if bits_of(declared) > bits_of(t):
            raw = code.bitcast(type_, value, words(bits_of(t)))
            extension = "sext" if t[0] == "s" else "zext"
            value, type_ = (
                code.op(f"{extension} {words(bits_of(t))} {raw} to {words(bits_of(declared))}"),
                words(bits_of(declared)),
            )
        if declared != "pred":
            value, type_ = code.bitcast(type_, value, vector(declared)), vector(declared)
        if guard is not None:
            old, _ = self._current(name)
            loose = loose or name in self._loose_values
            value = code.select(guard, type_, value, old)
        self._values[name] = value, type_
        (self._loose_values.add if loose else self._loose_values.discard)(name)

    def _keep(self, name: str) -> None:
        """Store a register's value for the group's lanes."""
        code = self._code
        value, type_ = self._values[name]
        slot = self._slot(name)
        if type_ == BITS_VECTOR:
            old = code.op(f"load i32, ptr {slot}")
            new = code.op(f"and i32 {code.bits(value)}, {self._lanes}")
            preserved = code.op(f"and i32 {old}, {code.op(f'xor i32 {self._lanes}, -1')}")
            code.do(f"store i32 {code.op(f'or i32 {new}, {preserved}')}, ptr {slot}")
            return
        aligned = _aligned(self._decoder.type_of(name) or "b32")
        old = code.op(f"load {type_}, ptr {slot}, {aligned}")
        code.do(f"store {type_} {code.select(self._mask, type_, value, old)}, ptr {slot}, {aligned}")

    # --- instructions -----------------------------------------------------------------------------------------

    def _write_instruction(self, position: int, guard: str | None) -> None:
        decoded = self._decoder.decoded[position]
        if isinstance(decoded, Operation):
            self._operate(position, decoded, guard)
        elif isinstance(decoded, MemoryAccess):
            self._access(position, decoded, guard)
        elif isinstance(decoded, AsyncCopy):
            self._copy(position, decoded, guard)
        elif isinstance(decoded, CopyGroups):
            self._group(decoded, guard)
        elif isinstance(decoded, WarpOperation):
            if guard is not None and is_gate(self._program.code[position][1]):
                raise NotCompiled("a guarded shuffle or vote")
            self._exchange(position, decoded, guard)

    def _operate(self, position: int, decoded: Operation, guard: str | None) -> None:
        alu = decoded.alu
        copied = alu.copies and decoded.outs[0] in self._decoder.loose
        tolerant, loose = alu.tolerant or copied, alu.loose or copied
        ins = [self._read(position, text, t, tolerant=tolerant) for text, t in zip(decoded.ins, alu.ins, strict=True)]
        try:
            results = trace(self._code, alu, ins)
        except UnknownForm as error:  # depends on an operand's value
            instruction = self._program.code[position][1]
            raise NotCompiled(f"PTX line {instruction.line}: {text_of(instruction)}: {error}") from error
        for name, t, value in zip(decoded.outs, alu.outs, results, strict=True):
            self._set(name, t, value, guard, loose=loose and t in ("f32", "f64"))

    # --- memory -----------------------------------------------------------------------------------------------

    @contextmanager
    def _where(self, guard: str | None) -> Iterator[str]:
        """Emit code that runs only if a lane is active; yield the lanes as i32."""
        code = self._code
        if guard is None:
            yield self._lanes
            return
        lanes = code.bits(guard)
        active, after = code.fresh("some"), code.fresh("after")
        code.do(f"br i1 {code.op(f'icmp eq i32 {lanes}, 0')}, label %{after}, label %{active}")
        code.label(active)
        yield lanes
        code.do(f"br label %{after}")
        code.label(after)

    def _access(self, position: int, access: MemoryAccess, guard: str | None) -> None:
        code, t = self._code, access.t
        bits, count = bits_of(t), len(access.registers)
        if access.kind == "load":
            if access.space == "kernel-param":
                self._load_parameter(position, access, guard)
                return
            address, address_bits = self._address(position, access)
            with self._where(guard) as lanes:
                self._move(_Transfer(position, access, lanes, ()), address, address_bits)
            for i, value in enumerate(self._loaded(access, bits, count)):
                self._set(access.registers[i], t, code.bitcast(words(bits), value, vector(t)), guard)
            return
        stored = [self._read(position, text, t if t in ("f32", "f64") else f"b{bits}") for text in access.registers]
        values = [
            code.bitcast(vector(t if t in ("f32", "f64") else f"b{bits}"), value, words(bits)) for value in stored
        ]
        address, address_bits = self._address(position, access)
        with self._where(guard) as lanes:
            self._move(_Transfer(position, access, lanes, values), address, address_bits)

    def _copy(self, position: int, copy: AsyncCopy, guard: str | None) -> None:
        """Emit a copy from global to shared memory; lanes that read no bytes write zeros."""
        code = self._code
        t, count = {4: ("b32", 1), 8: ("b64", 1), 16: ("b32", 4)}[copy.size]
        load = MemoryAccess("load", "global", copy.source, (SINK,) * count, t)
        store = MemoryAccess("store", "shared", copy.target, (SINK,) * count, t)
        source, source_bits = self._address(position, load)
        target, target_bits = self._address(position, store)
        if source_bits != _ADDRESS_BITS:
            source = code.op(f"zext {_V} {source} to {_W}")
        read_size = None if copy.read is None else self._read(position, copy.read, "u32")
        with self._where(guard) as lanes:
            if target_bits == _ADDRESS_BITS:
                target = self._narrowed(target, lanes, splat(0, 64))
            fetched = lanes
            if read_size is not None:
                nonzero = code.op(f"icmp ne {_V} {read_size}, zeroinitializer")
                short = code.op(f"icmp ult {_V} {read_size}, {splat(copy.size, 32)}")
                self._refuse_if(lanes, code.op(f"and {BITS_VECTOR} {nonzero}, {short}"))
                fetched = code.op(f"and i32 {code.bits(nonzero)}, {lanes}")
            fetch, after = code.fresh("read"), code.fresh("copied")
            code.do(f"br i1 {code.op(f'icmp eq i32 {fetched}, 0')}, label %{after}, label %{fetch}")
            code.label(fetch)
            self._call(_Transfer(position, load, fetched, (), counted=False), "global", source)
            code.do(f"br label %{after}")
            code.label(after)
            mask, ty = code.mask(fetched), vector(t)
            values = [
                code.select(mask, ty, value, "zeroinitializer") for value in self._loaded(load, bits_of(t), count)
            ]
            group = self._note_copy() if self._watched is not None else "0"
            self._call(_Transfer(position, store, lanes, values, counted=False, group=group), "shared", target)
            if self._count:
                site = code.op(f"getelementptr i8, ptr %sites, i64 {len(self.sites) * accesses.SITE_BYTES}")
                self.sites.append(CountedSite(position, COPY, copy.size))
                self.needs["copied", "", 0, 0, ""] = None
                status = code.op(
                    f"call i32 @copied(ptr {site}, {_V} {target}, {_W} {source}, i32 {lanes}, i32 {fetched}, "
                    f"i32 {copy.size}, ptr %copied)"
                )
                counted = code.fresh("counted")
                code.do(f"br i1 {code.op(f'icmp eq i32 {status}, 0')}, label %{counted}, label %fault")
                code.label(counted)

    def _note_copy(self) -> str:
        """Record a copy in the warp's next group; return the group's number."""
        code = self._code
        committed = code.field("%state", layout.COMMITTED, "i32")
        group = code.op(f"add i32 {committed}, 1")
        code.set_field("%state", layout.COPIED, "i32", group)
        return group

    def _group(self, decoded: CopyGroups, guard: str | None) -> None:
        """Emit a commit or wait of copy groups; it is suspicious unless the whole warp executes it."""
        if self._watched is None:
            return
        code = self._code
        lanes = self._lanes if guard is None else code.bits(guard)
        number = code.op("zext i32 %warp to i64")
        exists = code.field("%context", layout.CONTEXT["exists"], "ptr", 8)
        everyone = code.op(f"load i32, ptr {code.op(f'getelementptr i32, ptr {exists}, i64 {number}')}")
        full_warp = code.fresh("whole")
        code.do(f"br i1 {code.op(f'icmp eq i32 {lanes}, {everyone}')}, label %{full_warp}, label %suspect")
        code.label(full_warp)
        committed = code.field("%state", layout.COMMITTED, "i32")
        if decoded.commits:
            committed = code.op(f"add i32 {committed}, 1")
            code.set_field("%state", layout.COMMITTED, "i32", committed)
        if decoded.left is not None:
            finished = code.op(f"sub i32 {committed}, {decoded.left}")
            completed = code.field("%state", layout.COMPLETED, "i32")
            latest = code.op(f"call i32 @llvm.smax.i32(i32 {finished}, i32 {completed})")
            code.set_field("%state", layout.COMPLETED, "i32", latest)

    def _load_parameter(self, position: int, access: MemoryAccess, guard: str | None) -> None:
        code, t = self._code, access.t
        _, offset, _ = self._decoder.place(position, access.address)
        width = bits_of(t) // 8
        total_bytes = width * len(access.registers)
        if offset < 0 or offset + total_bytes > self._program.param_bytes or offset % total_bytes:
            raise NotCompiled("a load beyond the parameters")
        for i, name in enumerate(access.registers):
            value = code.field("%params", offset + i * width, f"i{8 * width}", width)
            spread = code.spread(f"i{8 * width}", value)
            self._set(name, t, code.bitcast(words(8 * width), spread, vector(t)), guard)

    def _address(self, position: int, access: MemoryAccess) -> tuple[str, int]:
        """Return an access's (32,) addresses and their bit width."""
        code = self._code
        base, offset, _ = self._decoder.place(position, access.address)
        if base is None:
            return splat(offset, 64), 64
        bits = self._bits(base)
        if bits not in (32, 64):
            raise NotCompiled(f"an address in {base}")
        value = self._read(position, base, f"b{bits}")
        return (code.op(f"add {words(bits)} {value}, {splat(offset, bits)}") if offset else value), bits

    def _refuse_if(self, lanes: str, condition: str) -> None:
        """Emit an exit to the interpreter if a condition holds for an active lane."""
        code = self._code
        hit = code.op(f"and i32 {code.bits(condition)}, {lanes}")
        good = code.fresh("good")
        code.do(f"br i1 {code.op(f'icmp eq i32 {hit}, 0')}, label %{good}, label %fault")
        code.label(good)

    def _move(self, transfer: _Transfer, address: str, bits: int) -> None:
        """Emit an access at addresses of the given width."""
        code, access, lanes = self._code, transfer.access, transfer.lanes
        if access.space == "shared":
            if bits == _ADDRESS_BITS:
                address = self._narrowed(address, lanes, splat(0, 64))
            self._call(transfer, "shared", address)
            return
        if bits != _ADDRESS_BITS:
            address = code.op(f"zext {_V} {address} to {_W}")
        if access.space == "local":
            self._move_local(transfer, address)
        elif access.space == "generic":
            segment = code.op(f"lshr {_W} {address}, {splat(36, 64)}")
            in_shared = code.bits(code.op(f"icmp eq {_W} {segment}, {splat(SHARED_SEGMENT, 64)}"))
            shared = code.op(f"and i32 {in_shared}, {lanes}")
            yes, no, after = code.fresh("shared"), code.fresh("global"), code.fresh("moved")
            code.do(f"br i1 {code.op(f'icmp eq i32 {shared}, 0')}, label %{no}, label %{yes}")
            code.label(yes)
            offsets = self._narrowed(address, lanes, splat(SHARED_WINDOW, 64))
            self._call(transfer, "shared", offsets)
            code.do(f"br label %{after}")
            code.label(no)
            self._call(transfer, "global", address)
            code.do(f"br label %{after}")
            code.label(after)
        else:
            self._call(transfer, "global", address)

    def _narrowed(self, address: str, lanes: str, window: str) -> str:
        """Return shared-memory offsets as i32; exit to the interpreter if one does not fit."""
        code = self._code
        offset = code.op(f"sub {_W} {address}, {window}")
        self._refuse_if(lanes, code.op(f"icmp ugt {_W} {offset}, {splat((1 << 31) - 1, 64)}"))
        return code.op(f"trunc {_W} {offset} to {_V}")

    def _call(self, transfer: _Transfer, space: str, address: str) -> None:
        """Emit the call of an access function for `shared` or `global` memory."""
        code, access = self._code, transfer.access
        total = bits_of(access.t) * len(access.registers)
        bits, count = accesses.unit_of(bits_of(access.t), len(access.registers))
        update = access.update if access.kind == "atomic" else ""
        if access.t[0] == "u" and update in ("min", "max"):
            update = "u" + update
        if update and access.t[0] == "f":
            update = "f" + update
        self.needs[access.kind, space, bits, count, update] = None
        site = code.op(f"getelementptr i8, ptr %sites, i64 {len(self.sites) * accesses.SITE_BYTES}")
        key = f"{space}.{access.kind}" if transfer.counted else ""
        self.sites.append(CountedSite(transfer.position, key, total // 8))
        memory = "ptr %table, i64 %segments"
        if space == "shared":
            memory = f"ptr %shared, {self._extent(transfer.position)}"
        name = accesses.name_of(access.kind, space, bits, count, update)
        type_ = _V if space == "shared" else _W
        if access.kind == "load":
            payload = "ptr %out"
        else:
            payload = ", ".join(f"{words(bits)} {value}" for value in self._packed(transfer, bits, count))
        watched = "" if self._watched is None else f"ptr %context, ptr %state, i32 %warp, i32 {transfer.group}, "
        if self._count and access.kind == "atomic":
            watched += f"ptr {self._chunks() if space == 'global' else 'null'}, "
        status = code.op(
            f"call i32 {name}({memory}, ptr {site}, {type_} {address}, i32 {transfer.lanes}, {watched}{payload})"
        )
        good = code.fresh("good")
        code.do(f"br i1 {code.op(f'icmp eq i32 {status}, 0')}, label %{good}, label %fault")
        code.label(good)

    def _chunks(self) -> str:
        """Return the address of the chunk flags of a global-memory atomic, whose site is the last one."""
        code = self._code
        number = sum(site.key == GLOBAL_ATOMIC for site in self.sites[:-1])
        stride = code.field("%context", layout.CONTEXT["chunk_bytes"], "i64", 8)
        start = code.field("%context", layout.CONTEXT["chunks"], "ptr", 8)
        return code.op(f"getelementptr i8, ptr {start}, i64 {code.op(f'mul i64 {stride}, {number}')}")

    def _extent(self, position: int) -> str:
        """Return the byte range of shared memory that an access may touch."""
        place = None if self._watched is None else self._watched.extents.get(position)
        if place is None:
            return "i64 0, i64 %shared_bytes"
        return f"i64 {place.offset}, i64 {place.offset + place.size}"

    def _packed(self, transfer: _Transfer, bits: int, count: int) -> list[str]:
        """Return a store's registers packed into `count` elements of the given width."""
        values = transfer.values
        code, own, per_unit = self._code, bits_of(transfer.access.t), len(values) // count
        if per_unit == 1:
            return list(values)
        packed = []
        for first in range(0, len(values), per_unit):
            total = code.op(f"zext {words(own)} {values[first]} to {words(bits)}")
            for i in range(1, per_unit):
                wide = code.op(f"zext {words(own)} {values[first + i]} to {words(bits)}")
                shifted = code.op(f"shl {words(bits)} {wide}, {splat(own * i, bits)}")
                total = code.op(f"or {words(bits)} {total}, {shifted}")
            packed.append(total)
        return packed

    def _loaded(self, access: MemoryAccess, own: int, count: int) -> list[str]:
        """Return the integers of a load's registers, from the access's output buffer."""
        code = self._code
        bits, units = accesses.unit_of(own, count)
        if access.space == "local":
            bits, units = own, count
        per_unit = count // units
        results = []
        for unit in range(units):
            loaded = code.field("%out", unit * LANES * bits // 8, words(bits), min(64, LANES * bits // 8))
            for i in range(per_unit):
                shifted = code.op(f"lshr {words(bits)} {loaded}, {splat(own * i, bits)}") if i else loaded
                results.append(shifted if per_unit == 1 else code.op(f"trunc {words(bits)} {shifted} to {words(own)}"))
        return results

    def _move_local(self, transfer: _Transfer, address: str) -> None:
        """Emit an access to local memory, which has one row per thread."""
        access, lanes, values = transfer.access, transfer.lanes, transfer.values
        code, own = self._code, bits_of(access.t)
        width, size = own // 8 * len(access.registers), self._program.local_bytes
        self._refuse_if(lanes, code.op(f"icmp ugt {_W} {address}, {splat(max(size - width, 0), 64)}"))
        if width > size:
            raise NotCompiled("an access wider than local memory")
        crooked = code.op(f"and {_W} {address}, {splat(width - 1, 64)}")
        self._refuse_if(lanes, code.op(f"icmp ne {_W} {crooked}, zeroinitializer"))
        row = code.op(f"add {_V} {code.spread('i32', code.op('shl i32 %warp, 5'))}, {IOTA}")
        start = code.op(f"mul {_W} {code.op(f'zext {_V} {row} to {_W}')}, {splat(local_stride(self._program), 64)}")
        offset = code.op(f"add {_W} {address}, {start}")
        pointers, mask = accesses.words_of_pointers(), code.mask(lanes)
        for i in range(len(access.registers)):
            at = code.op(f"add {_W} {offset}, {splat(i * own // 8, 64)}") if i else offset
            place = code.op(f"getelementptr i8, ptr %local, {_W} {at}")
            name = f"v{LANES}i{own}.v{LANES}p0"
            if access.kind == "load":
                got = code.op(
                    f"call {words(own)} @llvm.masked.gather.{name}({pointers} align {own // 8} {place}, "
                    f"{BITS_VECTOR} {mask}, {words(own)} zeroinitializer)"
                )
                code.set_field("%out", i * LANES * own // 8, words(own), got, min(64, LANES * own // 8))
                if self._watched is not None:
                    self._look_local(at, own, lanes)
            else:
                if self._watched is not None:
                    written_at = code.op(f"getelementptr i8, ptr %local_written, {_W} {at}")
                    code.do(
                        f"call void @llvm.masked.scatter.{name}({words(own)} splat (i{own} -1), "
                        f"{pointers} align {own // 8} {written_at}, {BITS_VECTOR} {mask})"
                    )
                code.do(
                    f"call void @llvm.masked.scatter.{name}({words(own)} {values[i]}, "
                    f"{pointers} align {own // 8} {place}, {BITS_VECTOR} {mask})"
                )

    def _look_local(self, at: str, own: int, lanes: str) -> None:
        """Emit a check for local-memory loads of unwritten bytes."""
        code = self._code
        mask = code.mask(lanes)
        written_at = code.op(f"getelementptr i8, ptr %local_written, {_W} {at}")
        written_bits = code.op(
            f"call {words(own)} @llvm.masked.gather.v{LANES}i{own}.v{LANES}p0({accesses.words_of_pointers()} "
            f"align {own // 8} {written_at}, {BITS_VECTOR} {mask}, {words(own)} splat (i{own} -1))"
        )
        unknown = code.bits(code.op(f"icmp ne {words(own)} {written_bits}, splat (i{own} -1)"))
        good = code.fresh("good")
        code.do(f"br i1 {code.op(f'icmp eq i32 {unknown}, 0')}, label %{good}, label %suspect")
        code.label(good)

    # --- between lanes ----------------------------------------------------------------------------------------

    def _exchange(self, position: int, decoded: WarpOperation, guard: str | None) -> None:
        code = self._code
        if decoded.kind == "active":
            lanes = self._lanes
            if guard is not None:
                lanes = code.bits(guard)
            self._set(decoded.outs[0], "b32", code.spread("i32", lanes), guard)
        elif decoded.kind in ("up", "down", "bfly", "idx"):
            self._shuffle(position, decoded)
        else:
            self._vote(position, decoded)

    def _shuffle(self, position: int, decoded: WarpOperation) -> None:
        code = self._code
        value, lane, clamp = (self._read(position, text, "u32") for text in decoded.ins)
        lane_mask = splat(31, 32)

        def op(opcode: str, a: str, b: str) -> str:
            return code.op(f"{opcode} {_V} {a}, {b}")

        shift, bound = op("and", lane, lane_mask), op("and", clamp, lane_mask)
        segment = op("and", op("lshr", clamp, splat(8, 32)), lane_mask)
        outside = op("xor", segment, splat(-1, 32))
        last = op("or", op("and", IOTA, segment), op("and", bound, outside))
        if decoded.kind == "up":
            source_lane = op("sub", IOTA, shift)
            hit = op("icmp sge", source_lane, last)
        else:
            if decoded.kind == "idx":
                source_lane = op("or", op("and", IOTA, segment), op("and", shift, outside))
            else:
                source_lane = op("add" if decoded.kind == "down" else "xor", IOTA, shift)
            hit = op("icmp sle", source_lane, last)
        source = code.select(hit, _V, source_lane, IOTA)
        inside = op("and", source, lane_mask)
        present = op("lshr", code.spread("i32", self._lanes), inside)
        absent = op("icmp eq", op("and", present, splat(1, 32)), "zeroinitializer")
        self._refuse_if(self._lanes, absent)
        members = self._read(position, decoded.members, "u32")
        if code.constants.get(members) != _EVERY_LANE:  # a lane or its source lane outside its mask
            both_in = op("and", op("lshr", members, inside), op("lshr", members, IOTA))
            self._refuse_if(self._lanes, op("icmp eq", op("and", both_in, splat(1, 32)), "zeroinitializer"))
        code.do(f"store {_V} {value}, ptr %scratch, align 64")
        at = op("shl", inside, splat(2, 32))
        place = code.op(f"getelementptr i8, ptr %scratch, {_V} {at}")
        got = code.op(
            f"call {_V} @llvm.masked.gather.v{LANES}i32.v{LANES}p0({accesses.words_of_pointers()} align 4 {place}, "
            f"{BITS_VECTOR} splat (i1 true), {_V} zeroinitializer)"
        )
        self._set(decoded.outs[0], "b32", got, None)
        if len(decoded.outs) > 1:
            self._set(decoded.outs[1], "pred", hit, None)

    def _vote(self, position: int, decoded: WarpOperation) -> None:
        code = self._code
        ballot = code.bits(self._read(position, decoded.ins[0], "pred"))
        members = self._read(position, decoded.members, "b32")
        if code.constants.get(members) != _EVERY_LANE:  # a lane outside its own mask
            own = code.op(f"and {_V} {code.op(f'lshr {_V} {members}, {IOTA}')}, {splat(1, 32)}")
            self._refuse_if(self._lanes, code.op(f"icmp eq {_V} {own}, zeroinitializer"))
        yes = code.op(f"and i32 {ballot}, {self._lanes}")
        no = code.op(f"and i32 {code.op(f'xor i32 {ballot}, -1')}, {self._lanes}")
        yes_of = code.op(f"and {_V} {members}, {code.spread('i32', yes)}")
        if decoded.kind == "ballot":
            self._set(decoded.outs[0], "b32", yes_of, None)
            return
        no_of = code.op(f"and {_V} {members}, {code.spread('i32', no)}")
        any_set = code.op(f"icmp ne {_V} {yes_of}, zeroinitializer")
        none_against = code.op(f"icmp eq {_V} {no_of}, zeroinitializer")
        if decoded.kind == "any":
            result = any_set
        elif decoded.kind == "all":
            result = none_against
        else:
            result = code.op(f"or {BITS_VECTOR} {code.invert(any_set)}, {none_against}")
        self._set(decoded.outs[0], "pred", result, None)

    # --- where lanes go ---------------------------------------------------------------------------------------

    def _write_end(self, block: CodeBlock) -> None:
        code, program = self._code, self._program
        if block.end is None:
            self._go(block.following)
            return
        instruction = program.code[block.end][1]
        family = instruction.opcode.split(".")[0]
        active = self._lanes
        if instruction.predicate is not None:
            guard = self._guard(block.end, instruction)
            active = code.bits(guard or self._mask)
        if family == "bra":
            number, _ = program.code[block.end]
            target = program.block_at.get(program.offsets[number] + instruction.targets[0], -1)
            if instruction.predicate is None:
                self._go(target)
            else:
                self._branch(active, target, block.following)
            return
        away = code.fresh("away")
        if instruction.predicate is not None:
            stay = code.fresh("stay")
            code.do(f"br i1 {code.op(f'icmp eq i32 {active}, 0')}, label %{stay}, label %{away}")
            code.label(stay)
            self._go(block.following)
            code.label(away)
        if family in ("ret", "exit"):
            self._end(active)
        elif family == "trap":
            code.do("br label %fault")
            return
        else:
            self._wait(block, active)
        if instruction.predicate is None:
            code.do("br label %dispatch")
            return
        remaining = code.op(f"xor i32 {self._lanes}, {active}")
        code.do(f"store i32 {remaining}, ptr %group")
        if block.following < 0:
            self._end(remaining)
            code.do("br label %dispatch")
            return
        code.do(f"store i32 {program.priority[block.following]}, ptr %next")
        code.do("br label %requeue")

    def _end(self, lanes: str) -> None:
        code = self._code
        if self._watched is not None and self._watched.copies:
            copied = code.field("%state", layout.COPIED, "i32")
            completed = code.field("%state", layout.COMPLETED, "i32")
            landed = code.fresh("landed")
            code.do(f"br i1 {code.op(f'icmp sle i32 {copied}, {completed}')}, label %{landed}, label %suspect")
            code.label(landed)
        alive = code.field("%state", layout.ALIVE, "i32")
        code.set_field("%state", layout.ALIVE, "i32", code.op(f"and i32 {alive}, {code.op(f'xor i32 {lanes}, -1')}"))

    def _wait(self, block: CodeBlock, lanes: str) -> None:
        """Make lanes wait at the block's barrier; no lane may wait at another one."""
        code = self._code
        waiting = code.field("%state", layout.WAITING, "i32")
        at = code.field("%state", layout.BARRIER, "i32")
        first = code.op(f"icmp eq i32 {waiting}, 0")
        same_barrier = code.op(f"icmp eq i32 {at}, {block.end}")
        fine = code.fresh("fine")
        code.do(f"br i1 {code.op(f'or i1 {first}, {same_barrier}')}, label %{fine}, label %fault")
        code.label(fine)
        code.set_field("%state", layout.BARRIER, "i32", str(block.end))
        code.set_field("%state", layout.WAITING, "i32", code.op(f"or i32 {waiting}, {lanes}"))
        self._place(lanes, block.following)

    def _place(self, lanes: str, number: int) -> None:
        """Set the next block of some lanes."""
        code = self._code
        old = code.op(f"load {_V}, ptr %state, align 128")
        new = code.select(code.mask(lanes), _V, splat(self._program.priority[number], 32), old)
        code.do(f"store {_V} {new}, ptr %state, align 128")

    def _go(self, number: int) -> None:
        """Continue the whole group at a block; a negative number is the kernel's end."""
        code, ranks = self._code, self._program.priority
        if number < 0:
            self._end(self._lanes)
            code.do("br label %dispatch")
            return
        rank = ranks[number]
        if rank <= ranks[self._block.index]:
            fuel = code.op(f"sub i64 {code.op('load i64, ptr %fuel, align 8')}, 1")
            code.do(f"store i64 {fuel}, ptr %fuel, align 8")
            look, unspent, on = code.fresh("look"), code.fresh("unspent"), code.fresh("on")
            since = code.op(f"and i64 {fuel}, {layout.ROUNDS_BETWEEN_LOOKS - 1}")
            code.do(f"br i1 {code.op(f'icmp eq i64 {since}, 0')}, label %{look}, label %{on}")
            code.label(look)
            code.do(f"br i1 {code.op(f'icmp sle i64 {fuel}, 0')}, label %spins, label %{unspent}")
            code.label(unspent)
            halted = code.op("load volatile i64, ptr %stop, align 8")
            code.do(f"br i1 {code.op(f'icmp eq i64 {halted}, 0')}, label %{on}, label %stopped")
            code.label(on)
        lowest = code.op("load i32, ptr %others")
        wait = code.fresh("queue")
        code.do(f"br i1 {code.op(f'icmp ult i32 {rank}, {lowest}')}, label %b{number}, label %{wait}")
        code.label(wait)
        code.do(f"store i32 {rank}, ptr %next")
        code.do("br label %requeue")

    def _branch(self, taken: str, target: int, following: int) -> None:
        """Send some lanes of the group to one block and the others to another."""
        code, ranks = self._code, self._program.priority
        if target == following:
            self._go(target)
            return
        any_taken, none, all_, mixed = (code.fresh(stem) for stem in ("some", "none", "all", "part"))
        code.do(f"br i1 {code.op(f'icmp eq i32 {taken}, 0')}, label %{none}, label %{any_taken}")
        code.label(none)
        self._go(following)
        code.label(any_taken)
        code.do(f"br i1 {code.op(f'icmp eq i32 {taken}, {self._lanes}')}, label %{all_}, label %{mixed}")
        code.label(all_)
        self._go(target)
        code.label(mixed)
        not_taken = code.op(f"xor i32 {self._lanes}, {taken}")
        ends = [(lanes, number) for lanes, number in ((taken, target), (not_taken, following)) if number < 0]
        if ends:
            self._end(ends[0][0])
            continuing, number = (not_taken, following) if target < 0 else (taken, target)
            code.do(f"store i32 {continuing}, ptr %group")
            self._lanes = continuing
            self._go(number)
            return
        first, second = (taken, target), (not_taken, following)
        if ranks[target] > ranks[following]:
            first, second = second, first
        self._place(*second)
        lowest = code.op("load i32, ptr %others")
        code.do(f"store i32 {code.op(f'call i32 @llvm.umin.i32(i32 {lowest}, i32 {ranks[second[1]]})')}, ptr %others")
        code.do(f"store i32 {first[0]}, ptr %group")
        self._go(first[1])


def _aligned(t: str) -> str:
    return f"align {min(64, LANES * bits_of(t) // 8)}"


def local_stride(program: Program) -> int:
    """Return the local-memory stride between threads, in bytes."""
    return -(-max(program.local_bytes, 1) // 16) * 16

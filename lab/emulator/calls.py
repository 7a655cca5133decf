"""Device function calls: targets, arguments and results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Bytes
from lab.emulator.binding import Storage
from lab.emulator.callgraph import PROVIDED, Call, call_of, is_register
from lab.emulator.errors import unsupported
from lab.emulator.lanes import Lanes
from lab.emulator.memory.memory import Region
from lab.emulator.program import FRAME_POINTER, STACK_BYTES, STACK_POINTER, Place, size_of
from lab.isa.model import Variable


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Passes values between callers and callees.

    A recursive function has one set of registers and parameters here, so a recursive call saves them until it returns.

    Attributes:
        storage: Registers and other operands.
        frame: Call parameters, one row per thread.
    """

    storage: Storage
    frame: Region
    _kept: dict[tuple[int, int, str], NDArray[Any]] = field(default_factory=dict)

    def call(self, position: int) -> Call:
        """Decode a call instruction."""
        instruction = self.storage.program.code[position][1]
        decoded = call_of(instruction)
        if decoded is None:
            raise unsupported(instruction, "not a call")
        return decoded

    def targets(self, position: int, lanes: Lanes) -> tuple[list[tuple[int, Lanes]], Lanes]:
        """Return the functions some threads call, by number, and the threads that call no function."""
        program, call = self.storage.program, self.call(position)
        number, _ = program.code[position]
        nobody = Lanes(lanes.threads, np.zeros(0, np.int64))
        if not is_register(program.functions[number], call.target):
            called = next(i for i, function in enumerate(program.functions) if function.name == call.target)
            return [(called, lanes)], nobody
        addresses = lanes.fill(self.storage.at(position).source(call.target, "u64")(lanes))
        by_function, unmatched = [], np.ones(lanes.count, np.bool_)
        for i, function in enumerate(program.functions[1:], 1):
            matches = addresses == np.uint64(program.calls.address(function.name) or 0)
            if matches.any():
                by_function.append((i, lanes.take(np.flatnonzero(matches))))
                unmatched &= ~matches
        return by_function, lanes.take(np.flatnonzero(unmatched))

    def argument(self, position: int, index: int, lanes: Lanes, size: int) -> Bytes:
        """Return one argument of a call to a provided function, (count, size) bytes."""
        arguments = self.call(position).arguments
        if index >= len(arguments):
            raise unsupported(self.storage.program.code[position][1], f"the function takes {index + 1} arguments")
        return self._actual(position, arguments[index], size, lanes)

    def give_result(self, position: int, values: Bytes, lanes: Lanes) -> None:
        """Write a provided function's result, (count, size) bytes, to the call's destination."""
        for text in self.call(position).results[:1]:
            self._write_actual(position, text, values, lanes)

    def enter(self, position: int, callee: int, level: int, lanes: Lanes) -> Lanes:
        """Pass a call's arguments; return the threads whose stack is too small.

        Args:
            position: The call instruction.
            callee: Number of the function.
            level: The call depth.
            lanes: The threads.
        """
        program = self.storage.program
        caller, instruction = program.code[position]
        function, call = program.functions[callee], self.call(position)
        for actual, expected, kind in (
            (call.arguments, function.parameters, "arguments"),
            (call.results, function.results, "results"),
        ):
            if len(actual) != len(expected):
                raise unsupported(instruction, f"{function.name} has {len(expected)} {kind}, not {len(actual)}")
        values = [
            self._actual(position, text, _bytes_of(formal), lanes)
            for text, formal in zip(call.arguments, function.parameters, strict=True)
        ]
        if program.calls.again(caller, callee):
            self._keep(caller, level, lanes)
        for value, formal in zip(values, function.parameters, strict=True):
            self._write_formal(callee, formal, value, lanes)
        return self._push(callee, lanes)

    def leave(self, position: int, callee: int, level: int, lanes: Lanes) -> None:
        """Return a call's results. Arguments as in `enter`; the level is the caller's."""
        program = self.storage.program
        caller, _ = program.code[position]
        function = program.functions[callee]
        values = [self._formal(callee, formal, lanes) for formal in function.results]
        if callee in program.frames:
            pointer = self._hidden(callee, FRAME_POINTER)
            self._hidden(-1, STACK_POINTER)[lanes.rows] = pointer[lanes.rows]
        if program.calls.again(caller, callee):
            self._bring_back(caller, level, lanes)
        for text, value in zip(self.call(position).results, values, strict=True):
            self._write_actual(position, text, value, lanes)

    # --- the stack --------------------------------------------------------------------------------------------

    def _hidden(self, function: int, name: str) -> NDArray[Any]:
        array = self.storage.registers.array(function, name)
        assert array is not None  # noqa: S101  every register file has them
        return array

    def _push(self, callee: int, lanes: Lanes) -> Lanes:
        program = self.storage.program
        nobody = Lanes(lanes.threads, np.zeros(0, np.int64))
        size = program.frames.get(callee)
        if size is None:
            return nobody
        end = self._hidden(-1, STACK_POINTER)
        self._hidden(callee, FRAME_POINTER)[lanes.rows] = end[lanes.rows]
        end[lanes.rows] += np.uint64(size)
        limit = np.uint64(program.stack_start + STACK_BYTES)
        return lanes.take(np.flatnonzero(lanes.select(end) > limit))

    def _keep(self, caller: int, level: int, lanes: Lanes) -> None:
        """Save a function's registers and parameters for some threads."""
        for name, array in self._own(caller):
            saved = self._kept.get((level, caller, name))
            if saved is None:
                saved = self._kept[level, caller, name] = np.zeros_like(array)
            saved[lanes.rows] = array[lanes.rows]

    def _bring_back(self, caller: int, level: int, lanes: Lanes) -> None:
        for name, array in self._own(caller):
            saved = self._kept.get((level, caller, name))
            if saved is not None:
                array[lanes.rows] = saved[lanes.rows]

    def _own(self, function: int) -> list[tuple[str, NDArray[Any]]]:
        """Return a function's registers and parameter bytes, by name."""
        own = self.storage.registers.of(function)
        rows = self._rows
        for (number, name), place in self.storage.program.places.items():
            if number == function and place.space == "frame":
                own.append((f"[{name}]", rows[:, place.offset : place.offset + place.size]))
        return own

    # --- values -----------------------------------------------------------------------------------------------

    @property
    def _rows(self) -> Bytes:
        return self.frame.data.reshape(-1, self.frame.stride)

    def _place(self, function: int, name: str) -> Place | None:
        place = self.storage.program.places.get((function, name))
        return place if place is not None and place.space == "frame" else None

    def _actual(self, position: int, text: str, size: int, lanes: Lanes) -> Bytes:
        """Return an actual argument, (count, size) bytes: a parameter, register or constant."""
        number, instruction = self.storage.program.code[position]
        place = self._place(number, text)
        if place is not None:
            return _fitted(self._rows[lanes.rows, place.offset : place.offset + place.size], size)
        array = self.storage.registers.array(number, text)
        if array is not None:
            return _fitted(_as_bytes(lanes.select(array)), size)
        if size not in (1, 2, 4, 8):
            raise unsupported(instruction, f"{text} is not a parameter")
        return _as_bytes(lanes.fill(self.storage.at(position).source(text, f"b{8 * size}")(lanes)))

    def _write_actual(self, position: int, text: str, value: Bytes, lanes: Lanes) -> None:
        number, instruction = self.storage.program.code[position]
        place = self._place(number, text)
        if place is not None:
            self._write_place(place, value, lanes)
            return
        array = self.storage.registers.array(number, text)
        if array is not None:
            array[lanes.rows] = _fitted(value, array.itemsize).view(array.dtype).reshape(-1)
        elif text != "_":
            raise unsupported(instruction, f"{text} must be a parameter or a register")

    def _formal(self, function: int, variable: Variable, lanes: Lanes) -> Bytes:
        if variable.space == "reg":
            array = self.storage.registers.array(function, variable.name)
            return _as_bytes(lanes.select(array)) if array is not None else np.zeros((lanes.count, 8), np.uint8)
        place = self.storage.program.places[function, variable.name]
        return self._rows[lanes.rows, place.offset : place.offset + place.size].copy()

    def _write_formal(self, function: int, variable: Variable, value: Bytes, lanes: Lanes) -> None:
        if variable.space == "reg":
            array = self.storage.registers.array(function, variable.name)
            if array is not None:
                array[lanes.rows] = _fitted(value, array.itemsize).view(array.dtype).reshape(-1)
            return
        self._write_place(self.storage.program.places[function, variable.name], value, lanes)

    def _write_place(self, place: Place, value: Bytes, lanes: Lanes) -> None:
        size = min(place.size, value.shape[1])
        self._rows[lanes.rows, place.offset : place.offset + size] = value[:, :size]


def is_provided(call: Call) -> bool:
    """Return whether a call's target is one the emulator provides."""
    return call.target in PROVIDED


def _bytes_of(variable: Variable) -> int:
    return size_of(variable) if variable.type != "pred" else 1


def _as_bytes(values: NDArray[Any]) -> Bytes:
    """Return (count,) values as a copy of their bytes, (count, size)."""
    return np.array(values).view(np.uint8).reshape(len(values), -1)


def _fitted(value: Bytes, size: int) -> Bytes:
    """Truncate or zero-pad bytes to (count, size)."""
    fitted = np.zeros((len(value), size), np.uint8)
    least = min(size, value.shape[1])
    fitted[:, :least] = value[:, :least]
    return fitted

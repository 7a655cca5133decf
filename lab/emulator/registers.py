"""The register file: one array per register, over all threads of a batch."""

from __future__ import annotations

import re
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lab.emulator.arrays import Mask
from lab.emulator.opcodes import DTYPES
from lab.emulator.program import FRAME_POINTER, STACK_POINTER, Program
from lab.isa.model import Variable

_NUMBERED = re.compile(r"^(.*?)(\d+)((?:\.[xyzw])?)$")


class Digest(Protocol):
    """The interface of `hashlib` digests."""

    def update(self, data: bytes, /) -> None:
        """Add bytes to the digest."""


class RegisterFile:
    """The registers of all functions of a program, created on first use.

    Attributes:
        carry: (threads,) the carry flag.
    """

    def __init__(self, program: Program, threads: int) -> None:
        self._threads = threads
        self._arrays: dict[tuple[int, str], NDArray[Any]] = {}
        self._declared: dict[tuple[int, str, bool], str] = {}
        for number, function in enumerate(program.functions):
            for variable in (*function.parameters, *function.results, *function.variables):
                if variable.space == "reg":
                    self._declare(number, variable)
        for number in program.frames:
            self._declared[number, FRAME_POINTER, False] = "b64"
        if program.has_stack:
            self._declared[-1, STACK_POINTER, False] = "b64"
            self._arrays[-1, STACK_POINTER] = np.full(threads, program.stack_start, np.uint64)
        self.carry: Mask = np.zeros(threads, np.bool_)

    def _declare(self, number: int, variable: Variable) -> None:
        if variable.vector == 1:
            self._declared[number, variable.name, variable.parameterised] = variable.type
            return
        for component in "xyzw"[: variable.vector]:
            self._declared[number, f"{variable.name}.{component}", variable.parameterised] = variable.type

    def type_of(self, function: int, name: str) -> str | None:
        """Return a register's declared PTX type; None where the name is not a register."""
        ptx_type = self._declared.get((function, name, False))
        if ptx_type is None:
            match = _NUMBERED.match(name)
            ptx_type = self._declared.get((function, match[1] + match[3], True)) if match else None
        return ptx_type

    def of(self, function: int) -> list[tuple[str, NDArray[Any]]]:
        """Return the registers of a function used so far."""
        return [(name, array) for (number, name), array in self._arrays.items() if number == function]

    def hash_into(self, digest: Digest) -> None:
        """Feed every register to a digest, in order of first use."""
        for array in self._arrays.values():
            digest.update(array.tobytes())
        digest.update(self.carry.tobytes())

    def array(self, function: int, name: str) -> NDArray[Any] | None:
        """Return a register's array, (threads,), unsigned or bool for predicates; None for other names."""
        register = self._arrays.get((function, name))
        if register is None:
            declared = self.type_of(function, name)
            if declared is None:
                return None
            if declared not in DTYPES:
                return None
            dtype = np.dtype(np.bool_) if declared == "pred" else np.dtype(f"u{DTYPES[declared].itemsize}")
            register = self._arrays[function, name] = np.zeros(self._threads, dtype)
        return register

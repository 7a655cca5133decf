"""The error for instructions the emulator cannot execute faithfully."""

from __future__ import annotations

from lab.base.errors import LabError
from lab.isa.model import Instruction


class UnsupportedInstruction(LabError):  # noqa: N818  the name is the public word for this outcome
    """An unsupported PTX instruction, modifier or operand form."""

    def __init__(self, line: int, text: str, reason: str = "") -> None:
        """Describe the instruction.

        Args:
            line: Line of the PTX text, from 1.
            text: The instruction as written.
            reason: The unsupported part.
        """
        self.line, self.text, self.why = line, text, reason
        super().__init__(f"PTX line {line}: the emulator cannot execute `{text}`" + (f" ({reason})" if reason else ""))


def text_of(instruction: Instruction) -> str:
    """Return an instruction as PTX text."""
    guard = f"@{'!' if instruction.negated else ''}{instruction.predicate} " if instruction.predicate else ""
    return f"{guard}{instruction.opcode} {', '.join(instruction.operands)}".strip()


def unsupported(instruction: Instruction, reason: str) -> UnsupportedInstruction:
    """Return the error for an instruction that cannot be executed."""
    return UnsupportedInstruction(instruction.line, text_of(instruction), reason)

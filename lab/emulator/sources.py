"""Source lines of findings: the user's own line even if the fault is in an NVIDIA header."""

from __future__ import annotations

import re

from lab.isa.model import Instruction, SourceLocation

_LIBRARY = re.compile(
    r"^/cuda/"  # a header that is passed to NVRTC in memory
    r"|/site-packages/nvidia/|/(?:cuda|cuda-\d[\d.]*)/(?:.*/)?include/"  # wheels, toolkits
    r"|(?:^|/)(?:cub|thrust|cccl|libcudacxx|cooperative_groups|crt|cuda/std|cuda/__\w+)/"
    r"|(?:^|/)(?:cooperative_groups|cuda_fp(?:16|8|6|4)|cuda_bf16|mma|sm_\w+_(?:intrinsics|rt)|\w+_intrinsics)\.(?:h|hpp)$"
)


def is_library(file: str) -> bool:
    """Return whether a path is one of CUDA's headers."""
    return _LIBRARY.search(file.replace("\\", "/")) is not None


def chosen_by_library(instruction: Instruction) -> bool:
    """Return whether an instruction is a library's choice: its header function was called by another header.

    A function such as `cuda::ptx::mbarrier_init` that the user's source calls is the user's choice.
    """
    frames = (instruction.source, *instruction.callers[:1])
    return len(frames) > 1 and all(frame is not None and is_library(frame.file) for frame in frames)


def own_line(instruction: Instruction) -> SourceLocation | None:
    """Return the innermost line of the user's source that led to an instruction.

    If the instruction and all inlined calls are in CUDA's headers, return the outermost line; None where the PTX has
    no lines.
    """
    frames = [frame for frame in (instruction.source, *instruction.callers) if frame is not None]
    return next((frame for frame in frames if not is_library(frame.file)), frames[-1] if frames else None)


def own_calls(instruction: Instruction) -> tuple[SourceLocation, ...]:
    """Return the calls in the user's source that led to `own_line`, innermost first.

    A line of a small helper called throughout a kernel says little without them.
    """
    frames = (frame for frame in (instruction.source, *instruction.callers) if frame is not None)
    return tuple(frame for frame in frames if not is_library(frame.file))[1:]

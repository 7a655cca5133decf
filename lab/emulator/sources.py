"""Which line of the source a finding names: the user's own, although the fault shows in a header of NVIDIA's."""

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
    """Return whether a file is one of CUDA's headers, by its path."""
    return _LIBRARY.search(file.replace("\\", "/")) is not None


def chosen_by_library(instruction: Instruction) -> bool:
    """Return whether a library chose an instruction: its function for it was called by another one of CUDA's headers.

    A function such as `cuda::ptx::mbarrier_init` that the user's source calls is the user's choice.
    """
    frames = (instruction.source, *instruction.callers[:1])
    return len(frames) > 1 and all(frame is not None and is_library(frame.file) for frame in frames)


def own_line(instruction: Instruction) -> SourceLocation | None:
    """Return the innermost line of the user's source that led to an instruction.

    Where all of the calls that it was inlined into are in CUDA's headers, that is the outermost of them; None where the
    PTX has no lines.
    """
    frames = [frame for frame in (instruction.source, *instruction.callers) if frame is not None]
    return next((frame for frame in frames if not is_library(frame.file)), frames[-1] if frames else None)


def own_calls(instruction: Instruction) -> tuple[SourceLocation, ...]:
    """Return the calls of the user's source that led to `own_line`, the innermost one first.

    A line of a small function that every part of a kernel calls says little without them.
    """
    frames = (frame for frame in (instruction.source, *instruction.callers) if frame is not None)
    return tuple(frame for frame in frames if not is_library(frame.file))[1:]

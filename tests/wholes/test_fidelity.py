"""The rules of `lab.hardware.memory` against what an H200 counted, pattern by pattern (docs/results/fidelity.md)."""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.hardware import memory as traffic

FIDELITY = Path(__file__).parents[2] / "benchmarks" / "fidelity"
sys.path.insert(0, str(FIDELITY))

import patterns  # noqa: E402

MEASURED: defaultdict[str, dict[str, Any]] = defaultdict(dict)
for row in json.loads((FIDELITY / "h200.json").read_text())["launches"]:
    MEASURED[row["group"]][row["name"]] = row["measured"]
PATTERNS = defaultdict(list)
for pattern in patterns.patterns():
    PATTERNS[pattern.kernel].append(pattern)
COPIES = [kernel for kernel in PATTERNS if "copy" in kernel]
OFFSETS_LOAD_SECTORS = 4
"""Every pattern kernel first reads its 32 offsets."""


def active(pattern):
    return (pattern.offsets != patterns.IDLE).reshape(1, 32)


def addresses(offsets):
    return np.where(offsets == patterns.IDLE, 0, offsets).astype(np.int64).reshape(1, 32)


@pytest.mark.parametrize(
    "kernel", [kernel for kernel in PATTERNS if kernel.startswith("shared") and kernel not in COPIES]
)
def test_shared_wavefronts(kernel):
    loads = "load" in kernel
    figure = "shared_load_wavefronts" if loads else "shared_store_wavefronts"
    for p in PATTERNS[kernel]:
        ours = traffic.shared_wavefronts(addresses(p.offsets), p.width, active(p), loads=loads)[0]
        assert ours == MEASURED[kernel][p.name][figure], p.name
        ideal = traffic.ideal_wavefronts(addresses(p.offsets), p.width, active(p), loads=loads)[0]
        assert min(ours, 1) <= ideal <= ours


@pytest.mark.parametrize("kernel", [kernel for kernel in PATTERNS if kernel.startswith("global")])
def test_global_sectors(kernel):
    own, figure = (OFFSETS_LOAD_SECTORS, "global_load_sectors") if "load" in kernel else (0, "global_store_sectors")
    for p in PATTERNS[kernel]:
        ours = own + traffic.global_sectors(addresses(p.offsets), p.width, active(p))[0]
        assert ours == MEASURED[kernel][p.name][figure], p.name


def aligned(p):
    """Sixteen bytes lie alike in source and target sector."""
    on = active(p)[0]
    return p.width < 16 or bool((p.offsets[on] % 32 == p.sources[on] % 32).all())


@pytest.mark.parametrize("kernel", COPIES)
def test_copies(kernel):
    compared = 0
    for p in filter(aligned, PATTERNS[kernel]):
        if "random" in p.name and "from" in p.name:  # source and target both conflict: within one, see the page
            continue
        copy = traffic.Copy(addresses(p.offsets), addresses(p.sources), p.width, active(p), active(p))
        found = MEASURED[kernel][p.name]
        if p.name != "stride 3" or p.width != 16:
            assert traffic.copy_wavefronts(copy)[0] == found["shared_copy_wavefronts"], p.name
        assert traffic.copy_sectors(copy)[0] == found["global_copy_sectors"], p.name
        compared += 1
    assert compared >= 15


def test_enough_patterns():
    for kernel, found in PATTERNS.items():
        assert len(found) >= 12, kernel
        assert len({p.name for p in found}) == len(found) == len(MEASURED[kernel])

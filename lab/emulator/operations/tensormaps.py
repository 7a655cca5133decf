"""Device-side tensor maps: a kernel replaces fields of a map in memory and publishes it to tensor copies.

PTX ISA, tensormap.replace, tensormap.cp_fenceproxy. The emulator has its own encoding of maps, with separate fields.
The fences that a map needs are not checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from lab.emulator.arrays import Addresses, Bits
from lab.emulator.lanes import Lanes, warp_of
from lab.emulator.memory.tensormaps import ELEMENTS, MAGIC, MapField, place_of
from lab.emulator.opcodes import Opcode, UnknownForm
from lab.emulator.operations.system import Run, Site, system
from lab.hardware.tensormaps import BYTES
from lab.isa.ptx.constants import integer

_SWIZZLES: Final = (0, 32, 64, 128)
_ONLY_ZERO: Final = {"interleave_layout": "interleaving", "fill_mode": "a fill with other values than zeros"}
_FIELDS: Final[Mapping[str, MapField]] = {
    "global_address": MapField.BASE,
    "global_dim": MapField.EXTENT,
    "global_stride": MapField.STRIDE,
    "box_dim": MapField.BOX,
    "element_stride": MapField.STEP,
}
_WORD = 8


@system("tensormap")
def tensormap(site: Site, op: Opcode) -> Run:
    """Build the replacement of a field, or the copy of a map that publishes it to tensor copies."""
    if op.flag("replace"):
        return _replace(site, op)
    if op.flag("cp_fenceproxy"):
        return _publish(site, op)
    raise UnknownForm(f".{'.'.join(op.parts)}")


def _replace(site: Site, op: Opcode) -> Run:
    op.one_of(("tile",))
    space = {"shared::cta": "shared", "global": "global", "generic": "generic"}[
        op.one_of(("shared::cta", "global"), "generic")
    ]
    op.one_of(("b1024",))
    t = op.one_of(("b32", "b64"))
    name = op.one_of((*_FIELDS, *_ONLY_ZERO, "rank", "elemtype", "swizzle_mode"))
    op.finish()
    address = site.operands.address(site.texts[0], space)
    if name in _ONLY_ZERO:
        if integer(site.texts[1]):
            raise UnknownForm(_ONLY_ZERO[name])
        return lambda _lanes: None
    if name in _FIELDS:
        ordinal = integer(site.texts[1]) if len(site.texts) > 2 else 0  # noqa: PLR2004 - address, ordinal, value
        offset, width = place_of(_FIELDS[name], ordinal)
        read = site.operands.source(site.texts[-1], t)

        def replace(lanes: Lanes) -> None:
            _store(site, space, address(lanes) + offset, lanes.fill(read(lanes)).astype(f"u{width}"), lanes)

        return replace
    field, value = _stated(name, integer(site.texts[1]))
    offset, width = place_of(field, 0)
    magic = np.frombuffer(MAGIC, "u8")

    def state(lanes: Lanes) -> None:
        _store(site, space, address(lanes) + offset, np.full(1, value, f"u{width}"), lanes)
        _store(site, space, address(lanes), magic, lanes)  # every map sets its rank, elements and swizzle

    return state


def _stated(name: str, number: int) -> tuple[MapField, int]:
    """Return a field set by an immediate, and its encoded value."""
    if name == "rank":
        return MapField.RANK, number + 1
    if not 0 <= number < len(ELEMENTS if name == "elemtype" else _SWIZZLES):
        raise UnknownForm(f"{name} {number}")
    return (MapField.ELEMENT, number) if name == "elemtype" else (MapField.SWIZZLE, _SWIZZLES[number])


def _store(site: Site, space: str, addresses: Addresses, values: Bits, lanes: Lanes) -> None:
    site.memory.store(site.position, space, addresses, [values], lanes)


def _publish(site: Site, op: Opcode) -> Run:
    """Build a warp's copy of a map from shared to global memory."""
    for word in ("global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"):
        op.one_of((word,))
    op.one_of(("cta", "cluster", "gpu", "sys"))
    op.finish()
    target, source, size = site.texts
    if integer(size) != BYTES:
        raise UnknownForm(f"{size} bytes; a tensor map has {BYTES}")
    to, of = site.operands.address(target, "global"), site.operands.address(source, "shared")
    memory, position = site.memory, site.position

    def run(lanes: Lanes) -> None:
        _, first = np.unique(warp_of(lanes.indices()), return_index=True)
        leaders = lanes.take(first)
        targets, sources = to(lanes)[first], of(lanes)[first]
        for at in range(0, BYTES, _WORD):
            values = memory.load(position, "shared", sources + at, leaders, width=_WORD)
            memory.store(position, "global", targets + at, values, leaders)

    return run

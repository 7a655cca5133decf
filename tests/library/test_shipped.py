"""The libraries that come with lab: complete, light, and with the interface that is emitted today."""

from __future__ import annotations

import tarfile

import pytest

from lab.library import emit
from lab.library.archive import SHIPPED, SUFFIX, stored
from lab.library.picking import picked

PLACES = [place for folder in SHIPPED if folder.is_dir() for place in sorted(folder.iterdir()) if place.is_dir()]
MOST_BYTES = 8 << 20


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_a_shipped_library_is_complete_and_as_it_is_emitted_today(place):
    found = stored(place.name)
    assert {one.library.layout for one in found} == {"nn", "nt", "tn", "tt"}
    assert sum(file.stat().st_size for file in place.iterdir()) <= MOST_BYTES
    for one in found:
        assert {kernel.cubin for kernel in one.library.kernels} == set(one.cubins)
        assert one.place.name == f"{one.library.name}{SUFFIX}"
        with tarfile.open(one.place) as tar:
            header = tar.extractfile(f"{one.library.name}.h")
            assert header is not None
            assert header.read().decode() == emit.to_header(one.library)
        for size in ((1, 1, 1), (4096, 4096, 4096), (2994, 116, 620), (7, 11, 10007)):
            assert picked(one.library, *size) in range(len(one.library.kernels))

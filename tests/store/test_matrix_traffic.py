"""Operand traffic of matrix instructions, checked against wgmma shapes and tile sizes."""

from pathlib import Path

import pytest

from lab.runs.sides import read_side
from lab.store.matrix_traffic import tensor_figures

REPORTS = Path(__file__).parents[2] / "reports/h200"
WGMMA = 2 * 64 * 256 * 16 / ((64 + 256) * 32)
"""FLOP of m64n256k16 for each byte of its 64 rows and 256 columns, 32 bytes each."""


@pytest.fixture(scope="module")
def counted():
    return read_side(str(REPORTS / "hgemm_counters")).records


def of_rung(records, rung):
    return [tensor_figures(record) for record in records if rung in record.template]


def test_clusters_of_two_with_tiles_of_256_x_128(counted):
    """Of m = 384 and n = 256: two tiles beside each other share 384 rows, and each of two tiles wants 256 columns."""
    found = of_rung(counted, "v7_cluster")
    assert len(found) == 3
    for one in found:
        assert one.flop_per_shared_byte == pytest.approx(WGMMA)
        assert one.flop_per_global_byte == pytest.approx(2 * 512 * 256 / (2 * (384 + 2 * 256)))
        assert one.bytes_in_flight == 3 * (256 + 128) * 64 * 2  # of four stages
        assert 0 < one.share < 0.1


def test_tiles_of_another_size_are_told_apart(counted):
    found = {round(one.flop_per_shared_byte, 1) for one in of_rung(counted, "v9_pingpong")}
    assert found == {round(2 * 64 * n * 16 / ((64 + n) * 32), 1) for n in (128, 192)}


def test_a_kernel_without_matrix_instructions_has_none():
    for record in read_side(str(REPORTS / "gemm_ladder")).records[:3]:
        assert tensor_figures(record) is None


def test_loads_of_fragments_count_where_warps_multiply():
    """v0 reads no shared memory, v1 by ldmatrix, and v2 has stages."""
    records = read_side(str(REPORTS / "hgemm_mma")).records
    none, loaded, staged = (of_rung(records, f"v{rung}_")[0] for rung in range(3))
    assert none.flop_per_shared_byte is None
    assert loaded.flop_per_shared_byte > 0
    assert loaded.bytes_in_flight is None
    assert staged.bytes_in_flight > 0

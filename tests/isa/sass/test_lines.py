from __future__ import annotations

from lab.isa.model import SourceLocation
from lab.isa.sass.lines import LineTable

TABLE = LineTable(("/k.cu", "/cuda/cuda_fp16.h"), {"k": {0: (0, 3), 32: (1, 700)}, "broken": {0: (2, 1), 16: (-1, 1)}})


def test_rows_become_source_lines() -> None:
    assert TABLE.starts("k") == {0: SourceLocation("/k.cu", 3), 32: SourceLocation("/cuda/cuda_fp16.h", 700)}


def test_a_function_without_rows_has_no_lines() -> None:
    assert TABLE.starts("other") == {}
    assert LineTable().starts("k") == {}


def test_rows_of_files_that_are_not_listed_are_left_out() -> None:
    assert TABLE.starts("broken") == {}

"""`benchmarks/time_agreement.py`: what was estimated before it was measured."""

from __future__ import annotations

PAGE = """\
| kernel | variants | first pick | estimated µs |
|---|---:|---|---:|
| [fir](../experiments/others/fir.yaml) | 1 of 1 | threads=64 | 280.8 |

## fir

| variant | estimated µs | low | high |
|---|---:|---:|---:|
| threads=64 | 280.8 | 205.1 | 576.0 |
"""


def test_the_rows_of_a_committed_page_are_read_by_kernel_and_label(benchmark_script):
    script = benchmark_script("time_agreement")
    assert script.committed(PAGE) == {"fir": {"threads=64": script.Committed(280.8, 205.1, 576.0)}}

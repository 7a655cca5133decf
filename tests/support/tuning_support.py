"""Tuning files that are read, and times that are invented. Nothing here was measured."""

from lab.measured.timing import Kind, Samples
from lab.store.tuning_model import Timed
from lab.tuning.file.load import load

BASE = """question: Which?
arch: sm_90
groups:
  - name: tensile
    template: gemm/tensile.cu.j2
{steps}
    BenchmarkFinalParameters: [{{exact: [64, 64, 64]}}, {{range: [[16, 16, 64], 16, 16]}}]
"""


def tuning(folder, steps="", text=None):
    file = folder / "t.yaml"
    indented = "\n".join(f"    {line}" for line in steps.splitlines())
    file.write_text(text if text is not None else BASE.format(steps=indented))
    return load(file)


def invented(ms):
    return Timed(Samples((ms,)), Kind.PREDICTED)


class Bench:
    """Times by a function of kernel and size; remembers what it was asked."""

    def __init__(self, ms):
        self.ms, self.asked = ms, []

    def __call__(self, candidates, sizes):
        self.asked.append(([one.name for one in candidates], tuple(sizes)))
        times = {}
        for one in candidates:
            found = {size: self.ms(one.parameters, size) for size in sizes}
            times[one.name] = {
                size: invented(ms) if ms is not None else Timed(None, Kind.PREDICTED, failure="it failed")
                for size, ms in found.items()
            }
        return times

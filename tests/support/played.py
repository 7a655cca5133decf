"""A tuning run on a GPU that is played; as a script, one that kills itself: ``played.py FILE FOLDER SIZES``."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

from fake_device import FakeDevice
from run_support import InProcess, cards_of, played_by

from lab.gpu.process.session import GpuSession
from lab.runs.services import Services
from lab.tuning.run import TuningOptions, tune

TUNING = """question: Which?
arch: sm_90
baselines: [cublas]
{halving}
timing: {{samples: 2, warmup_ms: 0}}
library: {{name: small, held_out: 3, refine: 4}}
groups:
  - name: tensile
    template: gemm/tensile.cu.j2
    benchmark: [{{exact: [256, 256, 64]}}]
    ForkParameters: {{ThreadTile: [[4, 4], [2, 2]], GlobalSplitU: [1, 4]}}
    JoinParameters: {{parameters: [MacroTile, GlobalSplitU]}}
    BenchmarkFinalParameters:
      - range: [[64, 192, 192, 1024], [64, 192, 192, 1024], 256]
      - exact: [5, 7, 4096]
    single_tuned: {{ThreadTile: [4, 4]}}
"""


class Watched:
    """Counts, and calls back after every size."""

    def __init__(self, after=lambda watched: None):
        self.after, self.points, self.steps, self.sizes, self.kernels = after, [], [], [], []
        self.kept = None
        self.asked_for, self.leaders, self.drawn = [], [], 0

    def began(self, tuning, gpu, *, measured=True):
        self.gpu = gpu

    def built(self, facts):
        self.kernels.append(facts)

    def resumed(self, points):
        self.kept = points

    def stepped(self, step):
        self.steps.append(step)

    def asked(self, what, sizes):
        self.asked_for.append((what, sizes))

    def drawing(self):
        self.drawn += 1

    def timed(self, size, points, leader=None):
        self.leaders.append(leader)
        self.sizes.append(size)
        self.points.append(points)
        self.after(self)


def write(folder, halving=""):
    file = folder / "small.yaml"
    file.write_text(TUNING.format(halving=halving))
    return file


def there_are_two(*, measure, every=False, model=""):
    return cards_of(2 if every else 1), ""


def play(file, folder, observer, **options):
    services = Services(find_cards=there_are_two, cards=played_by(partial(GpuSession, FakeDevice)), executor=InProcess)
    return tune(file, TuningOptions(output=folder, jobs=1, **options), observer, services)


def killing(after):
    def kill(watched):
        if len(watched.sizes) == after:
            os.kill(os.getpid(), signal.SIGKILL)

    return Watched(kill)


if __name__ == "__main__":
    play(Path(sys.argv[1]), Path(sys.argv[2]), killing(int(sys.argv[3])))

"""A backend without a GPU: the first entry point names what the "kernel" does, the cubin holds its time in ms."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lab.gpu.device.backend import Baseline, BaselineMissingError, BatchTiming, RefusedError
from lab.measured.timing import CardState, GpuDescription

MEMSET_MS = 0.04


class FakeError(Exception):
    pass


class FakeDevice:
    """Computes y = 2 x on the host, and reports the times that it was told."""

    errors: tuple[type[Exception], ...] = (FakeError,)

    def __init__(self):
        self.buffers: dict[str, Any] = {}
        self.inputs: Any = None
        self.calls: list[str] = []
        self.durations: dict[Any, float] = {}
        self.clocks: Iterator[int | None] = iter(())
        self.enqueue_ms, self.starved = 0.004, False
        self.launches = 0

    def describe(self):
        return GpuDescription("Fake", "sm_90", 1, 1000, 1 << 30, 1 << 20, "1.0", "13.0")

    def load(self, inputs):
        self.calls.append("load")
        self.inputs = inputs

    def upload(self):
        self.calls.append("upload")
        self.buffers = {name: array.copy() for name, array in self.inputs.arrays.items()}

    def renew_outputs(self):
        self.calls.append("renew outputs")
        self.buffers["y"] = np.full_like(self.inputs.arrays["y"], -np.nan)

    def kernel(self, cubin, launches):
        name = launches.steps[0].entry
        if name == "refused":
            raise RefusedError("300000 bytes of shared memory per block; this GPU has 232448")
        behaviour = getattr(self, f"_{name}")

        def launch():
            behaviour()
            self._tell(launches.steps)

        self.durations[launch] = float(cubin or b"1")
        return launch

    @staticmethod
    def _tell(steps):
        """Append the launched kernels to the file that stands in for a profiler."""
        if seen := os.environ.get("FAKE_LAUNCHES"):
            with Path(seen).open("a") as file:
                file.writelines(f"{step.entry}\n" for step in steps)

    def baseline(self, name, operator, problem):
        if name == "missing":
            raise BaselineMissingError("libfake was not found")
        launch = self._wrong if name in {"wrong", "copy", "elsewhere"} else self._double
        self.durations[launch] = 2.0
        if name == "copy":
            return Baseline(name, "", "copy", "", self._wrong, computes=False, ptx="// copy")
        if name == "elsewhere":
            return Baseline(name, "", "", "", launch, check=self._double)
        return Baseline(name, "libfake 1.0", "fake_kernel", "", launch)

    def outputs(self):
        return {"y": self.buffers["y"].copy()}

    def refresh(self):
        self.calls.append("refresh")

    def largest_error(self, expected):
        return None

    def overrun(self):
        return "y: 8 bytes written beyond its end, at byte 128 of 128" if "overrun" in self.buffers else ""

    def written_input(self):
        changed = np.flatnonzero(self.buffers["x"] != self.inputs.arrays["x"])
        return f"x is not declared as an output, but x[{changed[0]}] was written" if len(changed) else ""

    def unwritten(self, *, again=False):
        poison = np.array([-np.nan if again else np.nan])
        marks = self.buffers["y"].view(np.uint64) == poison.view(np.uint64)
        return {"y": marks} if "y" in self.inputs.required and marks.any() else {}

    def run(self, launches):
        self.calls.append(f"run {len(launches)}")
        for launch in launches:
            launch()

    def evict(self):
        self.calls.append("evict")

    def calibrate(self):
        self.calls.append("calibrate")

    def time(self, launch, *, batch, lead_ms, rewarm):
        self.calls.append(f"time {self.durations[launch]:g} batch={batch} rewarm={rewarm}")
        return BatchTiming(self.durations[launch], self.enqueue_ms, self.starved)

    def field(self, dtype, elements, workspace_bytes, seed):
        self.calls.append("field")
        return FakeField(self, elements, workspace_bytes)

    def sm_clock(self):
        return next(self.clocks, 1980)

    def card_state(self):
        return CardState(sm_clock_mhz=1980)

    def close(self):
        pass

    def _double(self):
        self.buffers["y"][:] = 2 * self.buffers["x"]

    def _wrong(self):
        self.buffers["y"][:] = 2 * self.buffers["x"]
        self.buffers["y"][3] += 1

    def _forgets_one(self):
        self.buffers["y"][:-1] = 2 * self.buffers["x"][:-1]

    def _overruns(self):
        self._double()
        self.buffers["overrun"] = np.ones(1)

    def _writes_its_input(self):
        self.buffers["x"][2] /= 2
        self.buffers["y"][:] = 2 * self.inputs.arrays["x"]

    def _counts(self):
        """Right when it is launched first, as with a variable on the device that nobody sets back."""
        self._double()
        self.buffers["y"][7] += self.launches
        self.launches += 1

    def _hangs(self):
        threading.Event().wait()

    def _aborts(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def _killed(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def _interrupts(self):
        """Press Ctrl-C as a terminal does, which sends SIGINT to the parent and to the worker; then hang."""
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getppid(), signal.SIGINT)
        self._hangs()

    def _exits(self):
        os._exit(7)

    def _illegal(self):
        raise FakeError("cuStreamSynchronize failed: an illegal memory access was encountered")

    def _bug(self):
        raise ZeroDivisionError("oh")

    def _prints(self):
        os.write(1, b"printed by the kernel\n")
        self._double()


class AbsentDevice(FakeDevice):
    def __init__(self):
        raise RuntimeError("no device")


class SlowToOpen(FakeDevice):
    def __init__(self):
        threading.Event().wait()


class FakeField:
    """A survey's field. A cubin says what its kernel does, ``b"1.5"``, ``b"abort"``; a real one's time made up."""

    def __init__(self, device, elements, workspace_bytes):
        self.device, self.elements, self.workspace_bytes = device, elements, workspace_bytes
        self.loaded: list[str] = []
        self.found: dict[Any, float] = {}

    def kernel(self, name, cubin, launches, problem):
        self.loaded.append(name)
        words = invented_ms(launches, problem) if cubin.startswith(b"\x7fELF") else cubin.decode()
        if words == "refused":
            raise RefusedError("too much shared memory")

        def launch():
            if words in {"abort", "hang", "illegal"}:
                {"abort": self.device._aborts, "hang": self.device._hangs, "illegal": self.device._illegal}[words]()

        self.device.durations[launch] = 1.0 if isinstance(words, str) and words.isalpha() else float(words)
        self.found[launch] = float("inf") if words == "wrong" else 1e-8
        return launch

    def baseline(self, problem):
        launch = self.kernel("cublas", b"2.0", None, problem)
        return Baseline("cublas", "libfake 1.0", "", "", launch)

    def expect(self, problem):
        self.device.calls.append(f"expect {problem['m']}")

    def check(self, launch):
        launch()
        return self.found[launch]


def invented_ms(launches, problem):
    """Waves of blocks over 132 imagined SMs, and a price for every launch. Nothing here was measured."""
    step = max(launches.steps, key=lambda one: np.prod(one.grid) * np.prod(one.block))
    blocks, threads = int(np.prod(step.grid)), int(np.prod(step.block))
    split = max(1, round(blocks * 64 * 64 / (problem["m"] * problem["n"] + 64 * 64)))
    waves = -(-blocks // 132)
    return len(launches.steps) * 2e-3 + waves * problem["k"] * (1 + 0.1 * split) * (threads + 64) * 1e-7

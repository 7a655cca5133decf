"""Do tensor cores compute here what they compute on a card, bit for bit?

``python benchmarks/tensor_cores.py card FILE.npz`` runs the kernels of `tensor_cases.py` on the first GPU and saves
what they leave; ``python benchmarks/tensor_cores.py check FILE.npz`` executes them here and compares. The constants of
`lab.emulator.operations.products` stand on this comparison, and tests/emulator/operations/h200_tensor_cores.npz is
an excerpt of such a file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tensor_cases import Case, cases

from lab.emulator.api import launch


def emulate(case: Case, trials: int | None = None) -> NDArray[Any]:
    """Return what the emulator leaves, of the first trials where not all are wanted."""
    (count, *shape), dtype = case.output
    out = np.zeros((trials or count, *shape), dtype)
    inputs = [np.ascontiguousarray(array[: len(out)]) for array in case.inputs]
    launch(case.ptx, "k", len(out), case.threads, [*inputs, out])
    return out


class Card:
    """The first GPU, through the driver's own API."""

    def __init__(self) -> None:
        from cuda.bindings import driver  # noqa: PLC0415  only here is a driver needed

        self._api = driver
        self._done(driver.cuInit(0))
        self._device = self._done(driver.cuDeviceGet(0))
        self._context = self._done(driver.cuDevicePrimaryCtxRetain(self._device))
        self._done(driver.cuCtxSetCurrent(self._context))

    @staticmethod
    def _done(answer: tuple[Any, ...]) -> Any:  # noqa: ANN401  whatever the driver answers
        status, *values = answer
        if int(status):
            raise RuntimeError(f"the driver answers {status}")
        return values[0] if values else None

    @property
    def name(self) -> str:
        """The GPU's name."""
        return bytes(self._done(self._api.cuDeviceGetName(64, self._device))).split(b"\0")[0].decode()

    def run(self, case: Case) -> NDArray[Any]:
        """Return what the card leaves."""
        api = self._api
        module = self._done(api.cuModuleLoadData(case.ptx.encode() + b"\0"))
        function = self._done(api.cuModuleGetFunction(module, b"k"))
        shape, dtype = case.output
        out = np.zeros(shape, dtype)
        buffers = []
        for array in (*case.inputs, out):
            held = np.ascontiguousarray(array)
            buffer = self._done(api.cuMemAlloc(held.nbytes))
            self._done(api.cuMemcpyHtoD(buffer, held.ctypes.data, held.nbytes))
            buffers.append(buffer)
        pointers = [np.array([int(buffer)], np.uint64) for buffer in buffers]
        table = np.array([pointer.ctypes.data for pointer in pointers], np.uint64)
        self._done(api.cuLaunchKernel(function, shape[0], 1, 1, case.threads, 1, 1, 0, 0, table.ctypes.data, 0))
        self._done(api.cuCtxSynchronize())
        self._done(api.cuMemcpyDtoH(out.ctypes.data, buffers[-1], out.nbytes))
        for buffer in buffers:
            self._done(api.cuMemFree(buffer))
        self._done(api.cuModuleUnload(module))
        return out


def measure(target: Path, seed: int) -> int:
    """Run every case on the card; save the outputs and say which ones could not run."""
    outputs: dict[str, Any] = {}
    card, failed = Card(), 0
    listed = cases(seed)
    for case in listed:
        try:
            outputs[case.name] = card.run(case)
        except RuntimeError as error:
            failed += 1
            print(f"{case.name}: {error}", flush=True)
    np.savez_compressed(target, **outputs, gpu=np.array(card.name))
    print(f"{len(outputs)} of {len(listed)} cases on {card.name}: {target}")
    return failed


def excerpt(source: Path, target: Path) -> None:
    """Save the part of a file that the tests hold: all floating-point sums but most of f64, four trials of layouts."""
    saved = np.load(source)
    excerpted = {"gpu": saved["gpu"]}
    for name in saved:
        if "layout" in name:
            excerpted[name] = saved[name][:4]
        elif name.startswith(("mma", "wgmma")) and ("f64" not in name or "m8n8k4" in name):
            excerpted[name] = saved[name]
    np.savez_compressed(target, **excerpted)


def compare(source: Path, seed: int, only: str = "") -> int:
    """Compare what the emulator leaves with a file; return the cases that differ."""
    saved, wrong = np.load(source), 0
    for case in cases(seed):
        if case.name not in saved or only not in case.name:
            continue
        wanted = saved[case.name]
        same = emulate(case, len(wanted)) == wanted
        if same.all():
            print(f"{case.name}: equal ({same.size} words)")
            continue
        wrong += 1
        by_trial = same.reshape(len(same), -1).mean(axis=1)
        names = (case.mixes or tuple(str(i) for i in range(len(same))))[: len(same)]
        parts = {
            name: np.mean([x for x, other in zip(by_trial, names, strict=True) if other == name]) for name in names
        }
        listed = ", ".join(f"{name} {100 * share:.1f} %" for name, share in parts.items() if share < 1)
        print(f"{case.name}: {100 * same.mean():.2f} % equal; of {listed}")
    return wrong


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("card", "check", "excerpt"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--to", type=Path, help="the file that an excerpt goes to")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    if given.what == "excerpt":
        excerpt(given.file, given.to)
        return 0
    wrong = measure(given.file, given.seed) if given.what == "card" else compare(given.file, given.seed, given.only)
    return min(1, wrong)


if __name__ == "__main__":
    sys.exit(main())

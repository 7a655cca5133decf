"""Run experiments and tuning files one after another and publish what a reader needs of each.

python benchmarks/measure_all.py reports/h200 gemm_ladder gemm_unroll [--seconds 120]

Run directories stay in reports/; the folder named first gets what benchmarks/publish.py commits of each. An experiment
that exceeds its time limit is interrupted: what it finished is published, and the same command goes on with the rest.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

from publish import publish  # the module beside this one
from ruamel.yaml import YAML

from lab.base.errors import LabError

ROOT = Path(__file__).resolve().parents[1]
_GRACE_S = 30
"""An interrupted run still writes its report."""


def main() -> None:
    """Run and publish; the exit code is 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, help="folder of the committed results; each run gets a folder in it")
    parser.add_argument("names", nargs="+", help="names of experiment or tuning files, without .yaml")
    parser.add_argument("--seconds", type=float, default=None, help="time limit for each; none by default")
    options = parser.parse_args()
    failed = [name for name in options.names if not once(name, options.target, options.seconds)]
    if failed:
        raise SystemExit(f"these did not finish without failures: {', '.join(failed)}")


def once(name: str, target: Path, seconds: float | None) -> bool:
    """Run and publish one; whether all its variants came to their end."""
    start, run = time.monotonic(), ROOT / "reports" / name
    # paths from the repository's root: the command is published, too
    file = f"experiments/{name}.yaml"
    verb = "tune" if "groups" in YAML(typ="safe").load(ROOT / file) else "run"  # tuning files group their kernels
    command = [sys.executable, "-m", "lab", verb, file, "-o", f"reports/{name}"]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    try:
        for sentence in publish(run, target / name):
            print(sentence)
    except (LabError, OSError, SystemExit) as error:
        print(f"{name} is not published: {error}")
        code = code or 1
    print(f"== {name}: exit code {code}, {time.monotonic() - start:.0f} s", flush=True)
    return code == 0


if __name__ == "__main__":
    main()

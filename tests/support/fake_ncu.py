"""Stands in for Nsight Compute: runs the program, and prints a table of the launches that the program logs.

FAKE_NCU says how it behaves: `knows not METRIC`, `silent METRIC`, `forbidden`, `hangs`, `loses one`, `N passes`.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

VALUES = {
    "dram__bytes_read.sum": "1,024",
    "dram__bytes_write.sum": "512",
    "gpu__time_duration.sum": "2,000",
    "sm__cycles_active.avg": "1,000.50",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "75",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "40",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "6",
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": "1",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": "2",
}


def say(line):
    sys.stdout.write(f"{line}\n")


def main(arguments):
    how = os.environ.get("FAKE_NCU", "")
    if arguments == ["--version"]:
        say("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880) (public-release)")
        return 0
    options, place = {}, 0
    while arguments[place].startswith("--"):
        if arguments[place] == "--csv":
            place += 1
        else:
            options[arguments[place]] = arguments[place + 1]
            place += 2
    if log := os.environ.get("FAKE_NCU_LOG"):
        with Path(log).open("a") as file:
            file.write(f"{options['--cache-control']} {options['--metrics'].count(',') + 1}\n")
    if how == "hangs":
        signal.pause()
    metrics = options["--metrics"].split(",")
    unknown = how.removeprefix("knows not ")
    if how.startswith("knows not") and unknown in metrics:
        say(f"==ERROR== Failed to find metric {unknown}")
        return 9
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder) / "seen"
        seen.touch()
        code = subprocess.run(arguments[place:], env={**os.environ, "FAKE_LAUNCHES": str(seen)}, check=False).returncode
        wanted = re.compile(options.get("--kernel-name", "regex:").removeprefix("regex:"))
        launches = [line for line in seen.read_text().split() if wanted.search(line)]
    if how == "forbidden":
        say("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters")
        return 1
    passes = how if how.endswith("passes") else "1 pass"
    for place, name in enumerate(launches):
        say(f'==PROF== Profiling "{name}" - {place}: 0%....50%....100% - {passes}')
    if launches:
        say(",".join(f'"{name}"' for name in ("ID", "Process ID", "Kernel Name", *metrics)))
        say(",".join('""' for _ in range(3 + len(metrics))))
    for place, name in enumerate(launches[how == "loses one" :]):
        values = ["n/a" if how == f"silent {metric}" else VALUES.get(metric, "1") for metric in metrics]
        say(",".join(f'"{text}"' for text in (place, 4711, name, *values)))
    return code


sys.exit(main(sys.argv[1:]))

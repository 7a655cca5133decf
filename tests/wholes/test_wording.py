"""The wording of each command's messages: golden files, and nowhere else.

Set `UPDATE_GOLDEN=1` to write the files again after rewording messages; the diff is the review.
"""

import io
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from lab.cli import main

GOLDEN = Path(__file__).parent / "golden"

EXPERIMENT = """question: Does unrolling show?
operator: gemm
problem: {m: 64, n: 64, k: 64}
kernels:
  - template: gemm/tiled.cu.j2
    parameters: {block_m: 32, block_n: 32, block_k: 8, thread_m: 4, thread_n: 4, unroll: [1, 8]}
archs: [sm_90]
"""
SOURCE = 'extern "C" __global__ void scale(float* y, int n) { y[threadIdx.x] = n; }\n'

FILES = {
    "good.yaml": EXPERIMENT,
    "syntax.yaml": "question: [\n",
    "empty.yaml": "",
    "twice.yaml": EXPERIMENT + "operator: gemm\n",
    "key.yaml": EXPERIMENT.replace("archs", "arch"),
    "missing.yaml": EXPERIMENT.replace("operator: gemm\n", ""),
    "operator.yaml": EXPERIMENT.replace("operator: gemm", "operator: gem"),
    "parameter.yaml": EXPERIMENT.replace("unroll", "unrol"),
    "value.yaml": EXPERIMENT.replace("unroll: [1, 8]", "unroll: [1, fast]"),
    "type.yaml": EXPERIMENT.replace("m: 64", "m: many"),
    "arch.yaml": EXPERIMENT.replace("sm_90", "sm_9"),
    "kernel.cu": SOURCE,
    "host.cu": "int main() { return 0; }\n",
    "bad.ptx": ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { bogus.u32; }\n",
    "notes.txt": "no kernel\n",
    "tuning.yaml": "groups: []\n",
}

COMMANDS = {
    "run": [
        ["run", name]
        for name in (
            "absent.yaml", "syntax.yaml", "empty.yaml", "twice.yaml", "key.yaml", "missing.yaml", "operator.yaml",
            "parameter.yaml", "value.yaml", "type.yaml", "arch.yaml",
        )
    ]
    + [  ["run", "good.yaml", "--cluster", "host:1"]],
    "emulate": [
        ["emulate", "absent.cu"], ["emulate", "kernel.cu"], ["emulate", "notes.txt"], ["emulate", "bad.ptx"],
        ["emulate", "kernel.cu", "--kernel", "scales"],
    ],
    "try": [
        ["try", "absent.cu"], ["try", "host.cu"], ["try", "notes.txt"], ["try", "kernel.cu", "--m", "8"],
        ["try", "kernel.cu", "--rows", "3"],
    ],
    "new": [["new", "absent.cu"], ["new", "host.cu"], ["new", "notes.txt"], ["new", "kernel.cu", "--kernel", "scales"]],
    "inspect": [
        ["inspect", "absent.cubin"], ["inspect", "notes.txt"],  ["inspect", "good.yaml", "--variant", "zzzz"],
    ],
    "map": [["map", "absent.yaml"], ["map", "syntax.yaml"]],
    "report": [["report", "absent"], ["report", "."]],
    "compare": [["compare", "absent", "other"]],
    "tune": [["tune", "absent.yaml"], ["tune", "tuning.yaml"], ["tune", "good.yaml"]],
    "calibrate": [["calibrate", "--gpu", "H900"], ["calibrate", "--from", "absent"]],
    "library": [["library", "explain", "absent", "8", "8", "8"], ["library", "pack", "absent", "-o", "out.zip"]],
    "cluster": [["cluster", "worker", "nowhere"], ["cluster", "keys", "kernel.cu"]],
}  # fmt: skip
"""For each command, calls that end with a message."""


def output_of(arguments):
    """Return the exit code and the output of a command that runs in this process."""
    streams = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(streams), redirect_stderr(streams):
        patch.setattr(sys, "argv", ["lab", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
    return int(ended.value.code or 0), streams.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_messages(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in (("TERM", "dumb"), ("COLUMNS", "80"), ("CUDA_VISIBLE_DEVICES", "")):
        monkeypatch.setenv(name, value)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    said = []
    for arguments in COMMANDS[command]:
        code, output = output_of(arguments)
        text = re.sub(r"[ \t]+$", "", output, flags=re.MULTILINE).replace(str(tmp_path), "FOLDER")
        text = re.sub(r"^\d+:\d\d; .*\n", "", text, flags=re.MULTILINE)  # progress of a slow machine
        assert code in {1, 2, 3}, (arguments, text)
        assert "Traceback" not in text
        said.append(f"$ lab {' '.join(arguments)}\n{text.rstrip()}\n(exit {code})\n")
    file = GOLDEN / f"{command}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text("\n".join(said))
    assert "\n".join(said) == file.read_text(), f"reworded? UPDATE_GOLDEN=1 pytest {Path(__file__).name}"

"""The command line as a user meets it: real processes, exit codes, no tracebacks."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest
from written_runs import make_store

from lab.base.errors import CompileError, MissingToolError, StoreError, UserError
from lab.base.executor import WorkerLostError
from lab.base.version import VERSION
from lab.cli import main
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain


def lab(*arguments, cwd, **more):
    return subprocess.run(
        [sys.executable, "-m", "lab", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "200"},
        **more,
    )


def here(*arguments, cwd):
    """The command line in this process, for what ends before it starts anything: the imports are made only once."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        for name, value in (("TERM", "dumb"), ("COLUMNS", "200"), ("PYTHONSAFEPATH", "1")):
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["lab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.main()
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.getvalue(), err.getvalue())


SMALL = """question: Does unrolling show?
operator: gemm
problem: {m: 64, n: 64, k: 64}
kernels:
  - template: gemm/tiled.cu.j2
    parameters: {block_m: 32, block_n: 32, block_k: 8, thread_m: 4, thread_n: 4, unroll: [1, 8]}
archs: [sm_90]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path


@pytest.mark.parametrize(
    ("commit", "said"),
    [
        ("0123456789ab", "commit 0123456789ab\n"),
        ("0123456789ab+dirty", "commit 0123456789ab with uncommitted changes\n"),
        ("", "unknown commit\n"),
    ],
)
def test_the_version_is_printed_with_the_commit(commit, said, tmp_path, monkeypatch):
    monkeypatch.setattr("lab.base.environment.commit", lambda: commit)
    done = here("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"lab {VERSION}, {said}")


def test_run_prints_rows_writes_the_report_and_serves_a_page_that_ends_with_it(folder):
    completed = lab("run", "small.yaml", "--json", "--no-gpu", "--serve", cwd=folder, stdin=subprocess.DEVNULL)
    assert completed.returncode == 0, completed.stderr
    result = json.loads(completed.stdout)
    rows = result["variants"]
    assert [row["rank"] for row in rows] == [1, 2]
    assert {row["p.unroll"] for row in rows} == {1, 8}
    assert rows[0]["measured_tflops"] is None
    assert (result["experiment"], result["folder"]) == ("small", "reports/small")
    assert result["figure"]["gpus"] == ["H200"]
    assert (folder / "reports" / "small" / "index.html").is_file()
    assert "reports/small/index.html" in completed.stderr
    assert completed.stderr.count("http://127.0.0.1:") == 1
    again = here("run", "small.yaml", "--no-gpu", cwd=folder)
    answer, head, _, *table = again.stdout.splitlines()
    assert answer == " ".join(result["answer"])
    assert "predicted for H200, in " in head
    length = next(i for i, line in enumerate(table) if line.startswith("performance findings on "))
    assert {line.split()[1] for line in table[:length]} == {row["variant"] for row in rows}
    assert (folder / "reports" / "small" / "previous" / "index.html").is_file()
    assert "against the last run, " in again.stderr
    listed = json.loads(here("inspect", "small.yaml", "--json", cwd=folder).stdout)
    assert {planned["variant"] for planned in listed} == {row["variant"] for row in rows}
    again = here("report", "reports/small", cwd=folder)
    assert again.returncode == 0
    assert "index.html" in again.stdout


def test_inspect_lists_and_shows_variants(folder):
    listed = here("inspect", "small.yaml", cwd=folder)
    assert listed.returncode == 0, listed.stderr
    variant = next(line.split()[0] for line in listed.stdout.splitlines() if "unroll=8" in line)
    shown = here("inspect", "small.yaml", "--variant", variant[:6], cwd=folder)
    assert shown.returncode == 0, shown.stderr
    for part in ("fma.rn.f32", "FFMA", "▌", "fma : ld.shared", "registers"):
        assert part in shown.stdout
    unknown = here("inspect", "small.yaml", "--variant", "zzz", cwd=folder)
    assert unknown.returncode == 2
    assert variant in unknown.stderr


def test_the_shell_completes_ids_of_variants(folder):
    listed = json.loads(here("inspect", "small.yaml", "--json", cwd=folder).stdout)
    every = {planned["variant"] for planned in listed}
    complete: Callable[..., list[tuple[str, str]]] = main._variant_ids
    context = SimpleNamespace(params={"file": folder / "small.yaml"})
    assert {variant for variant, _ in complete(context, "")} == every
    first = min(every)
    ((variant, label),) = complete(context, first[:4])
    assert variant == first
    assert "unroll=" in label
    assert complete(SimpleNamespace(params={"experiment": folder / "absent.yaml"}), "") == []
    assert complete(SimpleNamespace(params={}), "") == []


def test_inspect_json_is_one_object_of_the_known_shape(folder):
    (folder / "k.cu").write_text(
        'extern "C" __global__ void k(float* x, int n) {'
        " float s = 0; for (int i = 0; i < n; ++i) s = s * x[i] + 1; x[0] = s; }"
    )
    completed = here("inspect", "k.cu", "--json", cwd=folder)
    assert completed.returncode == 0, completed.stderr
    value = json.loads(completed.stdout)
    assert set(value) >= {"file", "isa", "kernels"}
    (kernel,) = value["kernels"]
    assert set(kernel) >= {"name", "by_class", "by_opcode", "instructions", "loops"}
    assert (value["isa"], kernel["name"]) == ("ptx", "k")
    loop = next(loop for loop in kernel["loops"] if loop["hot"])
    assert set(loop) >= {
        "label",
        "depth",
        "parent",
        "hot",
        "instructions",
        "by_class",
        "by_opcode",
        "fma_per_ld_shared",
        "fma_share",
        "fma_over_fma_plus_ld_shared",
    }
    assert loop["by_class"]["fma"] >= 1
    assert loop["fma_per_ld_shared"] is None
    sass = json.loads(here("inspect", "k.cu", "--json", "--isa", "sass", cwd=folder).stdout)
    assert sass["isa"] == "sass"


SQUARE = """extern "C" __global__ void square(int n, const float* x, float* y)
{ int i = threadIdx.x; if (BOUND) y[i] = x[i] * x[i]; }"""


@pytest.mark.parametrize(
    ("bound", "code", "words"), [("i < n", 0, "no faults were found"), ("i <= n", 1, "out-of-bounds")]
)
def test_emulate_executes_a_kernel_from_the_shell(folder, bound, code, words):
    source = SQUARE.replace("BOUND", bound)
    (folder / "k.ptx").write_text(toolchain("nvrtc").compile(CompileRequest(source, "k.cu", "sm_90")).ptx)
    words_of = ["i32=40", "f32[40]=normal", "f32[40]=out"]
    completed = here("emulate", "k.ptx", "--block", "64", *words_of, cwd=folder)
    assert completed.returncode == code, completed.stderr
    assert words in completed.stdout
    assert "global.load" in completed.stdout
    value = json.loads(here("emulate", "k.ptx", "--block", "64", *words_of, "--json", cwd=folder).stdout)
    assert value["counts"]["memory"]["global.load"]["requests"] == 2
    assert (not value["findings"]) == (code == 0)
    assert "f32[40]: " in completed.stdout
    assert len(value["outputs"]) == 1
    again = here("emulate", "k.ptx", "--block", "64", "--schedule", "3", *words_of, "--json", cwd=folder)
    assert json.loads(again.stdout)["outputs"] == value["outputs"]
    (folder / "k.cu").write_text(SQUARE)
    compiled = here("emulate", "k.cu", "-D", f"BOUND={bound}", "--block", "64", *words_of, "--json", cwd=folder)
    assert json.loads(compiled.stdout)["outputs"] == value["outputs"]
    refused = here("emulate", "k.ptx", "-D", "BOUND=1", *words_of, cwd=folder)
    assert "macros require a CUDA source" in refused.stderr
    wrong = here("emulate", "k.ptx", "--block", "sixty", *words_of, cwd=folder)
    assert wrong.returncode == 2
    assert "--block" in wrong.stderr


@pytest.fixture
def mistaken(folder):
    (folder / "bad.cu").write_text("this is not CUDA")
    (folder / "bad.ptx").write_text(".version 8.0\n.target sm_90\n.visible .entry k( {")
    (folder / "bad.cubin").write_bytes(b"not an ELF image")
    (folder / "small.txt").write_text("")
    (folder / "tuning.yaml").write_text("question: which?\ngroups: []\n")
    return folder


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "smal.yaml"], 2, "did you mean 'small.yaml'"),
        (["run", "small.yaml", "--max-variants", "1"], 2, "--max-variants 2"),
        (["run", "small.yaml", "--arch", "sm_1"], 2, "sm_1"),
        (["run", "small.yaml", "--toolchain", "nvrcc"], 2, "did you mean"),
        (["run", "small.yaml", "--toolchain", "nvrtc==1.0"], 3, "nvrtc"),
        (["run", "small.yaml", "--port", "70000"], 2, "65535"),
        (["run"], 2, "Missing argument"),
        (["rum"], 2, "rum"),
        (["run", "tuning.yaml"], 2, "lab tune tuning.yaml"),
        (["compare", "nowhere", "nowhere"], 3, "holds no run"),
        (["inspect", "bad.cu"], 2, "error"),
        (["inspect", "bad.ptx"], 2, "bad.ptx:"),
        (["inspect", "bad.cubin"], 2, "error"),
        (["inspect", "small.txt"], 2, "accepted"),
        (["report", "nowhere"], 3, "holds no run"),
    ],
)
def test_mistakes_are_told_in_words(mistaken, arguments, code, words):
    completed = here(*arguments, cwd=mistaken)
    assert completed.returncode == code, completed.stderr
    assert words in completed.stderr
    assert "Traceback" not in completed.stderr + completed.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "smal.yaml"], 2, "did you mean 'small.yaml'"),
        (["report", "nowhere"], 3, "holds no run"),
    ],
)
def test_a_mistake_ends_the_process_with_its_code(mistaken, arguments, code, words):
    completed = lab(*arguments, cwd=mistaken)
    assert (completed.returncode, completed.stdout) == (code, "")
    assert words in completed.stderr
    assert "Traceback" not in completed.stderr


@pytest.mark.parametrize("command", [[], ["run"], ["inspect"], ["report"], ["emulate"], ["doctor"], ["schema"]])
def test_every_command_has_help(folder, command):
    completed = here(*command, "--help", cwd=folder)
    assert completed.returncode == 0
    assert "Usage" in completed.stdout


def test_doctor_names_a_command_for_everything_missing(folder):
    findings = json.loads(here("doctor", "--json", cwd=folder).stdout)
    assert {"NVRTC", "nvdisasm", "PyCUDA"} <= {f["name"] for f in findings}
    assert all(f["install"] and f["adds"] for f in findings if not f["found"])
    assert here("doctor", cwd=folder).returncode == 0


def test_schema_prints_what_is_committed(folder, root):
    completed = here("schema", cwd=folder)
    assert completed.stdout == (root / "experiments" / "experiment.schema.json").read_text()


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from lab.cli import progress
from lab.__main__ import main

class Impatient(progress.RunProgress):
    pressed = False

    def recorded(self, record):
        super().recorded(record)
        if not self.pressed:
            signal.raise_signal(signal.SIGINT)
        self.pressed = True

progress.RunProgress = Impatient
sys.argv = ["lab", "run", "small.yaml", "--no-gpu", "-j", "1"]
if __name__ == "__main__":
    main()
"""


def test_ctrl_c_ends_with_130_and_a_report(folder):
    (folder / "small.yaml").write_text(SMALL.replace("[1, 8]", "[1, 2, 4, 8]"))
    (folder / "interrupted.py").write_text(INTERRUPTED)
    completed = subprocess.run(
        [sys.executable, "interrupted.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 130, completed.stderr
    assert "Traceback" not in completed.stderr
    assert re.search(r"^[1-4] of 4 variants", completed.stderr, re.MULTILINE)
    assert completed.stderr.count("interrupted: stopping") == 1
    assert (folder / "reports" / "small" / "index.html").is_file()


def test_a_sigint_that_is_ignored_at_the_start_stays_ignored(folder):
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); from lab.cli import main; "
        "sys.argv = ['lab', '--version']; "
        "import atexit; atexit.register(lambda: print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)); main.main()"
    )
    completed = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert completed.stdout.split()[-1] == "True"


def test_map_prints_the_map_its_check_and_its_coalescing(tmp_path):
    completed = here("map", "[3] | [2, 2] => [i0, t1, t0]", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines()[1].split() == ["0", "0", "0", "2", "2", "2", "1", "1", "1", "3", "3", "3"]
    assert "12 elements: 0 untouched" in completed.stdout
    assert "threads with different t: race-free" in completed.stdout
    assert "index: (i + (t >> 1) * 3 + (t & 1) * 6)" in completed.stdout
    facts = json.loads(
        here("map", "cyclic(width=4)", "--bytes", "4", "--elements", "5000", "--json", cwd=tmp_path).stdout
    )
    assert facts["map"][:5] == [0, 0, 0, 0, 1]
    assert (facts["threads"], facts["items"], facts["untouched"], facts["injective"]) == (256, 16, 904, True)
    assert [(c["vector"], c["sectors_per_request"], c["efficiency"]) for c in facts["coalescing"]] == [
        (1, 16, 0.25),
        (2, 16, 0.5),
        (4, 16, 1.0),
    ]
    skipping = here("map", "[3] | [2, (2, 1)] => [i0, t0, t1]", "--elements", "12", cwd=tmp_path).stdout
    assert skipping.splitlines()[1].split() == ["0", "0", "0", "1", "1", "1", "−", "−", "−", "−", "−", "−"]
    assert "guard: t < 2" in skipping


def test_a_launch_that_a_mapping_does_not_fit_is_refused(tmp_path):
    completed = here("map", "thread in block: [3] | [4]", "--grid", "2", "--block", "5", cwd=tmp_path)
    assert completed.returncode == 2
    assert "the mapping has 4 threads, and the launch has 5 in a block" in completed.stderr
    fitting = here("map", "thread in block: [3] | [4]", "--block", "4", cwd=tmp_path)
    assert (fitting.returncode, "a race" in fitting.stdout) == (0, False)
    unscoped = here("map", "[3] | [4]", "--block", "4", cwd=tmp_path)
    assert "accepted: thread in block: [3] | [4] => [i0, t0]" in unscoped.stderr


def test_a_wrong_mapping_is_told_without_a_traceback(tmp_path):
    completed = here("map", "[3] | [2, x] => [i0, t0, t1]", cwd=tmp_path)
    assert completed.returncode == 2
    assert "column 11" in completed.stderr
    assert "accepted: an integer from 1" in completed.stderr
    assert "Traceback" not in completed.stderr


def test_a_folder_whose_name_is_not_ascii(folder):
    name = "größe\udcff"  # and not UTF-8 either
    place = folder / name
    place.mkdir()
    (place / "small.yaml").write_text(SMALL.replace("[1, 8]", "1"))
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LAB_TRACEBACK": ""}
    words = [sys.executable, "-m", "lab", "run", f"{name}/small.yaml", "--no-gpu", "--no-emulate", "-o", f"{name}/out"]
    completed = subprocess.run(words, cwd=folder, capture_output=True, check=False, env=plain)
    assert completed.returncode == 0, completed.stderr
    assert (place / "out" / "index.html").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "r" * 300], "File name too long"),
        (["run", "r" * 300 + ".yaml"], "File name too long"),
        (["schema", "-o", "nowhere/x.json"], "No such file or directory"),
        (["run", "small.yaml", "--no-gpu", "-o", "small.yaml"], "small.yaml cannot be written: File exists"),
        (["inspect", "fifo.ptx"], "fifo.ptx: the file cannot be read\n  found: 'a FIFO'"),
        (["emulate", "fifo.ptx"], "fifo.ptx: the file cannot be read\n  found: 'a FIFO'"),
        (["run", "zero.yaml"], "zero.yaml: the experiment cannot be read\n  found: 'a device'"),
        (["inspect", "zero.cubin"], "zero.cubin: the cubin cannot be read\n  found: 'a device'"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_message(folder, words, message):
    os.mkfifo(folder / "fifo.ptx")
    for name in ("zero.yaml", "zero.cubin"):
        (folder / name).symlink_to("/dev/zero")
    completed = here(*words, cwd=folder)
    assert completed.returncode in (2, 3)
    assert message in completed.stderr
    assert "internal error" not in completed.stderr


def test_a_full_disk_at_the_start_is_a_message(folder):
    limited = f"ulimit -f 0; exec {sys.executable} -m lab run small.yaml --no-gpu"
    completed = subprocess.run(["/bin/sh", "-c", limited], cwd=folder, capture_output=True, text=True, check=False)
    assert completed.returncode == 3, completed.stderr
    assert completed.stderr.strip().startswith("error: ")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_has_its_exit_code(tmp_path, monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "w") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "lab", "schema"]
        said = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        silent = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=full, check=False)
    assert (said.returncode, silent.returncode) == (3, 3)
    assert said.stderr == "error: No space left on device\n"


def test_the_report_of_a_run_that_cannot_be_written_goes_elsewhere(tmp_path, monkeypatch):
    with make_store(tmp_path / "done", "ladder") as store:
        folder = store.folder
    before = sorted(path.name for path in folder.iterdir())
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK)
    with pytest.raises(StoreError, match="cannot be written; name another folder for the report with --output"):
        main.report(folder, None)
    main.report(folder, tmp_path / "elsewhere" / "page")
    assert (tmp_path / "elsewhere" / "page" / "index.html").is_file()
    assert sorted(path.name for path in folder.iterdir()) == before


def test_help_keeps_the_brackets_of_a_mapping(tmp_path):
    assert "[3] | [2, 2] => [i0, t1, t0]" in here("map", "--help", cwd=tmp_path).stdout


def test_a_reader_that_stops_early_ends_nothing(folder):
    source = SQUARE.replace("BOUND", "i < n")
    (folder / "long.ptx").write_text(toolchain("nvrtc").compile(CompileRequest(source, "k.cu", "sm_90")).ptx)
    command = f"{sys.executable} -m lab inspect long.ptx | head -1; exit ${{PIPESTATUS[0]}}"
    completed = subprocess.run(["/bin/bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert "Traceback" not in completed.stderr
    assert "Broken pipe" not in completed.stderr


def test_a_listing_in_a_file_is_never_cropped(folder):
    long = "// " + "x" * 900
    source = SQUARE.replace("BOUND", "i < n") + "\n" + long
    (folder / "k.cu").write_text(source)
    completed = here("inspect", "k.cu", "--full", cwd=folder)
    assert completed.returncode == 0, completed.stderr
    assert long in completed.stdout
    assert max(map(len, completed.stdout.splitlines())) < 2000


def test_try_needs_no_file_but_the_kernel(tmp_path):
    body = "int i = blockIdx.x * width + threadIdx.x; if (i < n) y[i] = 2 * x[i];"
    (tmp_path / "twice.cu").write_text(f"__global__ void twice(float *y, const float *x, int n) {{ {body} }}\n")
    words = ("--n", "3_000", "-D", "width=64,128", "--block", "width", "--grid", "ceil_div(n, width)")
    completed = lab("try", "twice.cu", *words, "--reference", "y=2 * x", "--no-gpu", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert "2 of 2 variants: 2 verified" in completed.stderr
    assert (tmp_path / "reports" / "twice" / "input" / "twice.yaml").is_file()
    other = here("try", "twice.cu", "--m", "5", cwd=tmp_path)
    assert (other.returncode, "the kernel has no such size" in other.stderr) == (2, True)


def test_a_verdict_that_rests_on_a_guess_does_not_count(tmp_path):
    body = "int i = threadIdx.x; if (i < n) y[i] = x[(int)m[i]];"
    (tmp_path / "g.cu").write_text(f"__global__ void g(float *y, const float *x, const float *m, int n) {{ {body} }}\n")
    words = ("try", "g.cu", "--n", "64", "--block", "64", "--no-gpu")
    doubtful = here(*words, cwd=tmp_path)
    assert doubtful.returncode == 1
    guess = doubtful.stderr.index("guessed: arguments.x: float32[n]")
    assert guess < doubtful.stderr.index("not judged: arguments.x was guessed")
    assert "--argument 'x=float32[n]'" in doubtful.stderr
    known = here(*words, "--argument", "x=float32[100]", "--argument", "m=float32[n] uniform 0 99", cwd=tmp_path)
    assert (known.returncode, "guess" in known.stderr) == (0, False), known.stderr


def test_two_variants_of_a_run_are_compared_by_their_ids(tmp_path):
    with make_store(tmp_path / "run", "sweep") as store:
        first, other, *_ = (record.variant for record in store.records())
    run = store.folder
    by_places = here("compare", f"{run}#{first}", f"{run}#{other}", "--json", cwd=tmp_path)
    by_ids = here("compare", run, first, f"#{other}", "--json", cwd=tmp_path)
    assert by_ids.returncode == by_places.returncode
    assert json.loads(by_ids.stdout) == json.loads(by_places.stdout)
    assert [(change["variant_a"], change["variant_b"]) for change in json.loads(by_ids.stdout)["changes"]] == [
        (first, other)
    ]


HOSTILE = "\\x1b]0;title\\x07\\x1b]52;c;cm0=\\x07"
PRINTS = f"""extern "C" __global__ void k() {{ printf("{HOSTILE}\u202e\\n"); }}"""
REFUSED = 'extern "C" __global__ void k() {\n#error "\u202e]0;title"\n}'


@pytest.mark.parametrize(
    ("words", "source", "code"),
    [
        (["emulate", "k.cu"], PRINTS, 0),
        (["emulate", "k.cu", "--json"], PRINTS, 0),
        (["emulate", "k.cu"], REFUSED, 2),
        (["inspect", "k.cu", "--full"], PRINTS, 0),
        (["report", "\x1b]0;title\x07"], "", 3),
        (["run", "k.cu", "--\x1b]0;title\x07"], "", 2),
    ],
)
def test_no_text_of_others_commands_the_terminal(folder, words, source, code):
    (folder / "k.cu").write_text(source)
    completed = here(*words, cwd=folder)
    assert completed.returncode == code, completed.stderr
    assert "]0;title" in completed.stdout + completed.stderr
    assert not set("\x1b\x07\u202e") & set(completed.stdout + completed.stderr)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UserError("wrong", code="wrong-value"), 2, "error: wrong"),
        (CompileError("refused", "its log", "nvrtc"), 2, "error: refused\nits log"),
        (MissingToolError("no nvcc"), 3, "error: no nvcc"),
        (WorkerLostError("signal 9", killed=True), 3, "error: signal 9"),
        (MemoryError(), 3, "error: there is not enough memory"),
        (OSError(24, "Too many open files"), 3, "error: too many open files"),
        (ModuleNotFoundError("No module named 'six'", name="six"), 3, "error: a Python package is missing"),
        (KeyError("x"), 70, "internal error: KeyError: 'x'\nThis is an error in lab itself"),
    ],
)
def test_each_error_has_its_words_and_its_exit_code(tmp_path, monkeypatch, error, code, words):
    def fail(**_):
        raise error

    monkeypatch.setattr(main, "app", fail)
    completed = here("doctor", cwd=tmp_path)
    assert (completed.returncode, completed.stdout) == (code, "")
    assert completed.stderr.startswith(words)


ENTRY = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k({} .u32 x)\n{{\nret;\n}}\n"


@pytest.mark.parametrize(
    ("limit", "words", "code", "message"),
    [
        ("ulimit -v 4000000", "emulate k.ptx i32=5 --grid 2147483647 --block 1024", 3, "there is not enough memory"),
        (
            "ulimit -n 24",
            "run small.yaml --no-gpu",
            3,
            "too many open files: this process may open 24;",
        ),
        (
            "ulimit -n 20",
            "run small.yaml --no-gpu",
            3,
            "too many open files: this process may open 20;",
        ),
        (
            "export PYTHONPATH=typer",
            "run small.yaml",
            3,
            "a Python package is missing or damaged",
        ),
        ("export PYTHONPATH=pydantic", "run small.yaml", 3, "a Python package is missing or damaged"),
        (":", "emulate reg.ptx i32=5", 2, "reg.ptx:4: a parameter of an entry cannot be in .reg"),
    ],
)
def test_what_the_machine_or_the_file_lacks_is_no_error_of_labs(folder, limit, words, code, message):
    (folder / "k.ptx").write_text(ENTRY.format(".param"))
    (folder / "reg.ptx").write_text(ENTRY.format(".reg"))
    for package in ("typer", "pydantic"):  # a package that needs one that is not there
        (folder / package).mkdir()
        (folder / package / f"{package}.py").write_text("import gone")
    command = f"{limit}; exec {sys.executable} -m lab {words}"
    completed = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False, timeout=200
    )
    assert completed.returncode == code, completed.stderr
    assert f"error: {message}" in completed.stderr
    assert "Traceback" not in completed.stderr

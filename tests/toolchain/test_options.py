from __future__ import annotations

import re

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.toolchain.base import CompileRequest
from lab.toolchain.nvcc import Nvcc
from lab.toolchain.nvrtc.compiler import find_nvrtc
from lab.toolchain.options import NVCC, NVRTC, OPTIONS, PTXAS, accepted

KERNEL = 'extern "C" __global__ void k(float *x) { *x = 1; }'


@pytest.mark.parametrize(
    ("given", "to_compilers"),
    [
        (["--use_fast_math"], ("--use_fast_math",)),
        (["-use_fast_math", "-DX=1", "-UY"], ("-use_fast_math", "-DX=1", "-UY")),
        (["-maxrregcount", "32", "-lineinfo"], ("--maxrregcount=32", "-lineinfo")),
        (["--maxrregcount=32"], ("--maxrregcount=32",)),
        (["-std=c++17"], ("-std=c++17",)),
        (["-D", "TYPE=unsigned int"], ("--define-macro=TYPE=unsigned int",)),
        (["--define-macro=X=(1 + 2)"], ("--define-macro=X=(1 + 2)",)),
        (["-Xptxas", "-dlcm=cg"], ("--ptxas-options=-dlcm=cg",)),
        (["-Xptxas=-O1"], ("--ptxas-options=-O1",)),
        (["--ptxas-options", "--def-load-cache=cg"], ("--ptxas-options=--def-load-cache=cg",)),
        (["--ftz=true", "-prec-div=false", "--fmad=false"], ("--ftz=true", "-prec-div=false", "--fmad=false")),
        (["-diag-suppress=177,20"], ("-diag-suppress=177,20",)),
    ],
)
def test_options_and_their_spellings(given, to_compilers):
    assert accepted(given) == to_compilers
    assert accepted(to_compilers) == to_compilers


REFUSED = [
    ["-Xcompiler", "-wrapper"],
    ["-Xcompiler=-wrapper,evil.sh"],
    ["-ccbin", "evil.sh"],
    ["--compiler-bindir=evil"],
    ["--time=/elsewhere/x"],
    ["--create-pch=/elsewhere/x"],
    ["--use-pch=/elsewhere/x"],
    ["--pch-dir=/elsewhere"],
    ["--pre-include=/etc/passwd"],
    ["-include", "/etc/passwd"],
    ["-I/etc"],
    ["--include-path=/etc"],
    ["-optf", "x"],
    ["--options-file=x"],
    ["@x"],
    ["--gpu-architecture=sm_80"],
    ["-arch=sm_80"],
    ["-o", "/elsewhere/x"],
    ["--keep-dir=/elsewhere"],
    ["--fdevice-time-trace=/elsewhere/x"],
    ["-Xlinker", "x"],
    ["-Xcudafe", "x"],
    ["-Xnvvm", "x"],
    ["--run"],
    ["--dryrun"],
    ["-Xptxas", "-o=/elsewhere/x"],
    ["-Xptxas", "--input-as-string=x"],
    ["-Xptxas", "-v,-o,/elsewhere/x"],
    ["-Xptxas", "@x"],
    ["-Xptxas"],
    ["-DX=1,-ccbin"],
    ["-DX=$(touch /elsewhere/x)"],
    ["-DX=`touch /elsewhere/x`"],
    ['-DX="a'],
    ["-DX=1;touch x"],
    ["-DX=1\n#include x"],
    ["-D1X"],
    ["-D" + "X" * 300],
    ["-DX=" + "1" * 300],
    ["-D"],
    ["-D", "-ccbin"],
    ["-maxrregcount", "32 -ccbin x"],
    ["-maxrregcount 32"],
    ["--maxrregcount=0"],
    ["--maxrregcount=256"],
    ["--maxrregcount=٣"],
    ["--maxrregcount"],
    ["--use_fast_math=/elsewhere/x"],
    ["-use_fast_math", "x.cu"],
    ["-std=c++98"],
    [""],
    ["kernel2.cu"],
    ["-O3 -ccbin x"],
    ["--use_fast_math"] * 65,
]


@pytest.mark.parametrize("given", REFUSED, ids=[" ".join(one)[:30].replace("\n", " ") for one in REFUSED])
def test_what_is_not_listed_is_refused_at_every_door(given, tmp_path):
    request = CompileRequest(KERNEL, "k.cu", "sm_90", tuple(given))
    marker = tmp_path / "ran"
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\ntouch {marker}\n")
    nvcc.chmod(0o755)
    for door in (
        lambda: accepted(given),
        lambda: find_nvrtc().compile(request),
        lambda: Nvcc(nvcc, "13.0", (), with_pycuda=False).compile(request),
    ):
        with pytest.raises(UserError) as caught:
            door()
        assert (caught.value.key or "").startswith("options")
        assert caught.value.accepted
    assert not marker.exists()


def test_a_message_says_what_to_write():
    with pytest.raises(UserError, check=coded("refused", key="options[0]", found="--use-fast-math")):
        accepted(["--use-fast-math"])
    with pytest.raises(UserError, check=coded("refused", key="options[1]", found="-arch=sm_80")):
        accepted(["-DX", "-arch=sm_80"])
    with pytest.raises(UserError, check=coded("refused", key="options[1]", found="-I/x")):
        accepted(["-w", "-I/x"])
    with pytest.raises(UserError, check=coded("wrong-value", key="options[0]", found="--maxrregcount=0")):
        accepted(["--maxrregcount=0"])
    with pytest.raises(UserError, check=coded("refused", key="options[0]", found="--warn-on-spill")):
        accepted(["-Xptxas=--warn-on-spill"])


def test_an_option_of_one_compiler_is_refused_for_the_other():
    assert accepted(["--extended-lambda"]) == accepted(["--extended-lambda"], "pycuda-nvcc") == ("--extended-lambda",)
    with pytest.raises(UserError, check=coded("unknown-name", key="options[0]", found="--extended-lambda")):
        accepted(["--extended-lambda"], NVRTC)
    with pytest.raises(UserError, check=coded("unknown-name", key="options[0]", found="--device-int128")):
        accepted(["--device-int128"], NVCC)


def test_nvrtc_takes_everything_that_is_accepted_for_it():
    compiler = find_nvrtc()
    samples = {"true": "true", "c++11": "c++17", "on": "on", "inline": "inline", "ca": "cg", "wb": "cg", "0": "0"}
    lists = ((OPTIONS, ""), (PTXAS, "--ptxas-options="))
    for option, before in [(option, before) for options, before in lists for option in options]:
        if NVRTC not in option.compilers:
            continue
        for name in option.names:
            text = name
            if option.values is not None:
                first = re.split(r" or |, ", option.values.accepted)[0]
                value = samples.get(first) or (
                    "177" if "diag" in name else "X" if "macro" in name or len(name) == 2 else "32"
                )
                text = f"{name}{value}" if name in option.glued else f"{name}={value}"
            made = compiler.compile(CompileRequest(KERNEL, "k.cu", "sm_90", (before + text,)))
            assert made.cubin, text

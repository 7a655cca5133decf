"""Several cubins disassembled in one call against each by itself, and images that are broken."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import CompileError
from lab.toolchain.base import CompileRequest
from lab.toolchain.cubin.merge import Merged, merge, part, split
from lab.toolchain.disassembly import nvdisasm as disassembler
from lab.toolchain.disassembly.check import is_listing_of
from lab.toolchain.disassembly.nvdisasm import disassemble, disassemble_all
from lab.toolchain.select import toolchain

ARCHS = ("sm_80", "sm_90a", "sm_100")
MERGED = {
    "plain": "KERNEL k(float* a) { a[threadIdx.x] = a[1] * 2.0f; }",
    "loop": "KERNEL k(float* a, int n) { float s = 0; for (int i = 0; i < n; ++i) s += a[i] * a[i + 1]; a[0] = s; }",
    "another name": "KERNEL longer_name(float* a, int n) { for (int i = 0; i < n; ++i) a[i] += 1; }",
    "table": """KERNEL k(int* a, int n) {
        switch (a[threadIdx.x]) {
            case 0: a[0] = 5; break;
            case 1: a[1] = a[7] * 3; break;
            case 2: a[2] ^= 99; break;
            case 3: a[3] = a[n]; break;
            case 4: a[4] = __popc(a[4]); break;
            default: a[6] = 0;
        }
    }""",
    "shared": """extern __shared__ float d[];
        KERNEL k(float* a) {
            __shared__ float s[64];
            s[threadIdx.x] = a[threadIdx.x];
            d[threadIdx.x] = 2;
            __syncthreads();
            a[0] = s[3] + d[5];
        }""",
    "constant": "__constant__ float c[16] = {1, 2, 3}; KERNEL k(float* a) { a[0] = c[threadIdx.x]; }",
    "global": "__device__ float g[16] = {1, 2}; KERNEL k(float* a) { a[0] = g[threadIdx.x]; atomicAdd(&g[1], 1.0f); }",
    "text": '__device__ const char* s = "abc"; KERNEL k(char* a) { a[0] = s[threadIdx.x]; }',
    "several": "KERNEL one(float* a) { a[1] = a[2]; } KERNEL two(float* a) { a[2] = a[threadIdx.x] * 3; }",
    "all registers": """KERNEL k(float* a) {
        float r[300];
        #pragma unroll
        for (int i = 0; i < 300; ++i) r[i] = a[i * threadIdx.x];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 300; ++i) a[i * 7] = r[299 - i] * r[i];
    }""",
}
ALONE = {
    "called": """__device__ __noinline__ float f(float x, int n) { while (n-- > 0) x = x * x + 1; return x; }
        KERNEL k(float* a, int n) { a[threadIdx.x] = f(a[1], n) + f(a[2], 3); }""",
    "recursive": """__device__ __noinline__ int f(int n) { return n < 2 ? 1 : f(n - 1) + f(n - 2); }
        KERNEL k(int* a) { a[0] = f(a[1]); }""",
    "pointer": "KERNEL k(float (*f)(float), float* a) { a[0] = f(a[1]); }",
    "printf": 'extern "C" __device__ int printf(const char*, ...); KERNEL k(float* a) { printf("%f", a[0]); }',
    "division": "KERNEL k(double* a) { a[0] = a[1] / a[2]; }",
}


def compiled(source, arch):
    source = source.replace("KERNEL", 'extern "C" __global__ void')
    return toolchain("nvrtc").compile(CompileRequest(source, "k.cu", arch)).cubin


@pytest.fixture(scope="module", autouse=True)
def _disassembled_once():
    """nvdisasm says the same of the same image each time, and takes half a second to start.

    What it was asked is what these tests look at (`calls`); several of them ask again what it says of `two`.
    """
    run = disassembler._run
    known = dict[tuple[object, ...], object]()

    def once(tool, options, image):
        key = tool, tuple(options), bytes(image)
        if key not in known:
            known[key] = run(tool, options, image)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disassembler, "_run", once)
        yield


SETS = [
    *(pytest.param((arch, turn), id=f"{arch}-a third") for turn, arch in enumerate(ARCHS)),
    *(pytest.param((arch, None), id=f"{arch}-all", marks=pytest.mark.thorough) for arch in ARCHS),
]


@pytest.fixture(scope="module", params=SETS)
def cubins(request):
    """Name to cubin and what the disassembler says of it by itself, which takes most of a second each.

    The architectures take turns with the kernels, beside two that go into every image.
    """
    arch, turn = request.param
    chosen = {name for i, name in enumerate(MERGED | ALONE) if turn is None or i % 3 == turn}
    every = {name: source for name, source in (MERGED | ALONE).items() if name in chosen | {"plain", "loop"}}
    cubin_by_name = {name: compiled(source, arch) for name, source in every.items()}
    return {name: (cubin, disassemble(cubin)) for name, cubin in cubin_by_name.items()}


@pytest.fixture(scope="module")
def two():
    return compiled(MERGED["loop"], "sm_90"), compiled(MERGED["global"], "sm_90")


@pytest.fixture(scope="module")
def alone(two):
    """Return the disassembly of each cubin of `two` on its own."""
    return [disassemble(cubin) for cubin in two]


@pytest.fixture
def calls(monkeypatch):
    """The options of every call of the disassembler."""
    option_lists, run = [], disassembler._run

    def noted(*arguments):
        option_lists.append(arguments[1])
        return run(*arguments)

    monkeypatch.setattr(disassembler, "_run", noted)
    return option_lists


def test_together_is_what_each_is_by_itself(cubins, calls):
    names = [name for name in MERGED if name in cubins]
    for chosen in (names[::2], names[1::2]):
        assert disassemble_all([cubins[name][0] for name in chosen]) == [cubins[name][1] for name in chosen]
    targets = {part(cubins[name][0]).kind for name in names}
    assert len(calls) == 2 or len(targets) > 1


def test_live_registers_at_a_call_depend_on_all_kernels_so_callers_stay_alone(cubins, calls):
    alone = [name for name in ALONE if name in cubins]
    names = [*alone, "plain", "loop"]
    assert disassemble_all([cubins[name][0] for name in names]) == [cubins[name][1] for name in names]
    assert len(calls) >= len(alone) + 1


def test_the_same_cubin_twice(two, alone, calls):
    assert disassemble_all([two[0], two[0]]) == [alone[0]] * 2
    assert len(calls) == 1


def test_none_and_one(two, alone):
    assert disassemble_all([]) == []
    assert disassemble_all([two[0]]) == [alone[0]]


def test_targets_are_not_mixed():
    cubins = [compiled(MERGED["plain"], arch) for arch in ("sm_80", "sm_90", "sm_90a", "sm_80")]
    first, *others = (disassemble(cubin) for cubin in cubins[:3])
    assert cubins[3] == cubins[0]
    assert disassemble_all(cubins) == [first, *others, first]
    with pytest.raises(ValueError, match="several kinds"):
        merge([part(cubins[1]), part(cubins[2])])


def test_a_refused_cubin_costs_itself(two, alone):
    first, broken, last = disassemble_all([two[0], two[1][:900], two[1]])
    assert [first, last] == alone
    assert isinstance(broken, CompileError)
    assert "nvdisasm refuses" in str(broken)


def test_a_refused_image_is_disassembled_cubin_by_cubin(two, alone, monkeypatch):
    run, images = disassembler._run, []

    def refuse(tool, options, image):
        images.append(image)
        if image not in two:
            raise CompileError("Invalid register count", "", "")
        return run(tool, options, image)

    monkeypatch.setattr(disassembler, "_run", refuse)
    assert disassemble_all(two) == alone
    assert len(images) == 3


def test_a_listing_of_another_cubin_is_not_taken(two, alone, calls, monkeypatch):
    monkeypatch.setattr(disassembler, "split", lambda *arguments: split(*arguments)[::-1])
    assert disassemble_all(two) == alone
    assert len(calls) == 1 + 2


def test_a_listing_is_told_from_others_by_registers_and_length(cubins):
    for name, (cubin, listing) in cubins.items():
        others = [other for other, (_, its) in cubins.items() if other != name and is_listing_of(its.text, cubin)]
        assert not others
        assert is_listing_of(listing.text, cubin)
        lines = listing.text.split("\n")
        first = next(place for place, line in enumerate(lines) if "/*0000*/" in line)
        assert not is_listing_of("\n".join(lines[:first] + lines[first + 1 :]), cubin)
        assert not is_listing_of(listing.text.replace("R1,", "R77,"), cubin)
    assert not is_listing_of("", b"no image")


def test_too_many_names(two):
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    source = " ".join(f"KERNEL {letter}_kernel(float* a) {{ a[0] = 1; }}" for letter in letters)
    many = part(compiled(source, "sm_90"))
    with pytest.raises(ValueError, match="too many letters"):
        merge([many] * 6)


@given(st.data())
@settings(max_examples=400)
def test_a_broken_image_is_refused_or_merged(two, data):
    broken = bytearray(two[data.draw(st.integers(0, 1))])
    for _ in range(data.draw(st.integers(0, 8))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.just(len(broken)), st.integers(0, len(broken))))
    with contextlib.suppress(ValueError):
        merge([part(bytes(broken[:end])), part(two[0])])


@given(
    st.lists(st.sampled_from([b"//------------------ .text.", b"\x80", b"\x81", b"k", b"\n", b"\n\n", b" SYMBOLS "]))
)
def test_any_listing_is_refused_or_taken_apart(pieces):
    with contextlib.suppress(ValueError):
        assert len(split(b"".join(pieces), Merged(b"", {0x80: (0, 107), 0x81: (1, 107)}, 2))) == 2

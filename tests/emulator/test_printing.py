"""Output of kernels' printf, compared with Python's formatting and C's documented results."""

import struct

import numpy as np
import pytest
from compiling import compile_text

from lab.emulator.api import launch
from lab.emulator.memory.memory import AddressSpace
from lab.emulator.printing import MOST_CHARACTERS, Printed, ThreadMemory, formatted


def text_of(form: str, values: bytes = b"", strings: bytes = b"") -> str:
    space = AddressSpace()
    held = [space.allocate("x", "global", max(len(raw), 1)) for raw in (form.encode() + b"\0", values, strings)]
    for region, raw in zip(held, (form.encode() + b"\0", values, strings), strict=True):
        region.data[: len(raw)] = np.frombuffer(raw, np.uint8)
    return formatted(ThreadMemory(space, 0), held[0].base, held[1].base)


@pytest.mark.parametrize(
    ("form", "packed", "wanted"),
    [
        ("plain 100%%\n", b"", "plain 100%\n"),
        ("%d|%5d|%-5d|%05d|%+d", struct.pack("5i", -7, 42, 42, 42, 42), "-7|   42|42   |00042|+42"),
        ("%u %x %X %o", struct.pack("4I", 2**32 - 1, 255, 255, 8), "4294967295 ff FF 10"),
        ("%#x %#X %#o %#x %#o", struct.pack("5I", 255, 255, 8, 0, 0), "0xff 0XFF 010 0 0"),
        ("%d %lld", struct.pack("i4xq", 1, -(2**40)), "1 -1099511627776"),  # aligned to its size
        ("%hd %hhu %ld", struct.pack("iiq", 65535, 511, 3), "-1 255 3"),
        ("%f %.2f %8.3e %g", struct.pack("4d", 1.5, 2.345678, 12345.678, 0.0001), "1.500000 2.35 1.235e+04 0.0001"),
        ("%i%c%c", struct.pack("3i", 3, ord("a"), ord("\n")), "3a\n"),
        ("%f %5.1f %F", struct.pack("3d", float("nan"), float("inf"), float("-inf")), "nan   inf -INF"),
        ("%05.1f|%*d|%-*d|%.*f", struct.pack("d5i4xd", 1.25, 6, 42, -4, 7, 2, 0.125), "001.2|    42|7   |0.12"),
        ("%a %a", struct.pack("2d", 1.0, -0.15625), "0x1p+0 -0x1.4p-3"),
        ("%s %p", struct.pack("2Q", 0, 0), "(null) (nil)"),
        ("%y %", b"", "%y %"),
        ("%10a|%-10a|%010a", struct.pack("3d", 1.0, 1.0, 1.0), "    0x1p+0|0x1p+0    |00000x1p+0"),
        ("%A %a", struct.pack("2d", -0.15625, float("inf")), "-0X1.4P-3 inf"),
        ("%#6o|%-#6o|%#06o", struct.pack("3I", 8, 8, 8), "   010|010   |000010"),
        ("%05f|%+05.1f|%-6f|", struct.pack("3d", float("inf"), float("inf"), float("nan")), "  inf| +inf|nan   |"),
        ("%hu %hhd %hx %hhd", struct.pack("4i", 65537, 128, -1, 127), "1 -128 ffff 127"),
        ("%5c|%-3c|%.d|%.3d", struct.pack("4i", 97, 98, 7, 7), "    a|b  |7|007"),
        ("%zu %jd %lu", struct.pack("QqQ", 2**63, -1, 1), f"{2**63} -1 1"),
        ("%.*f|%.*d", struct.pack("i4xd2i", -1, 0.5, 2, 3), "0.500000|03"),
        ("%8p|%x", struct.pack("QI", 255, 2**31), "    0xff|80000000"),
    ],
)
def test_formats(form, packed, wanted):
    assert text_of(form, packed) == wanted


def test_strings_end_with_a_zero_byte_or_with_their_memory():
    space = AddressSpace()
    form, values, words = (space.allocate("x", "global", n) for n in (16, 16, 5))
    form.data[:8] = np.frombuffer(b"<%s|%.2s", np.uint8)
    words.data[:5] = np.frombuffer(b"hello", np.uint8)
    values.data[:16] = np.frombuffer(struct.pack("2Q", words.base, words.base), np.uint8)
    assert formatted(ThreadMemory(space, 0), form.base, values.base) == "<hello|he"
    assert formatted(ThreadMemory(space, 0), 0, 0) == ""


def test_what_does_not_fit_is_counted():
    printed = Printed()
    printed.add("x" * MOST_CHARACTERS)
    printed.add("y")
    assert (printed.size, printed.lost) == (MOST_CHARACTERS, 1)
    assert "y" not in printed.text


def test_a_kernel_prints():
    ptx = compile_text(
        """extern "C" __device__ int printf(const char*, ...);
        extern "C" __global__ void k(const float* x) {
          int i = threadIdx.x;
          if (i % 3 == 0) printf("%s %d of %u: %.2f %lld\\n", "thread", i, blockDim.x, x[i], (long long)i << 40);
        }"""
    )
    x = np.linspace(0, 1, 8, dtype=np.float32)
    done = launch(ptx, "k", 1, 8, [x])
    assert done.clean
    assert done.notes == ()
    assert done.printed == "".join(f"thread {i} of 8: {float(x[i]):.2f} {i << 40}\n" for i in (0, 3, 6))


def test_a_failed_assertion_names_its_text_file_and_line():
    ptx = compile_text(
        """extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
        #define assert(x) ((x) ? (void)0 : __assertfail(#x, __FILE__, __LINE__, __func__, 1))
        extern "C" __global__ void k(int* x) {
          assert(x[threadIdx.x] < 5);
          x[threadIdx.x] = 1;
        }"""
    )
    x = np.arange(8, dtype=np.int32)
    done = launch(ptx, "k", 1, 8, [x])
    (found,) = done.findings
    assert (found.kind, found.count) == ("trap", 3)
    assert "kernel.cu:4: " in found.detail
    assert "assertion `x[threadIdx.x] < 5` failed" in found.detail
    assert x.tolist() == [1, 1, 1, 1, 1, 5, 6, 7]

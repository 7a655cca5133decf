from __future__ import annotations

import pytest

from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.draft_facts import draft_facts

KERNEL = "__global__ void k(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 1; }\n"
HOST = "int main() { float *x; int n = 4096; k<<<(n + 127) / 128, 128>>>(x, n); }"


@pytest.mark.parametrize(
    ("text", "keeps_block", "sides", "block"),
    [
        (KERNEL, False, ("threads",), ()),
        (KERNEL + HOST, False, ("threads",), ("128",)),
        (KERNEL + HOST, True, (), ("128",)),
        (KERNEL.replace("int i", "__shared__ float s[128]; s[threadIdx.x] = 1; int i") + HOST, False, (), ("128",)),
    ],
)
def test_other_blocks_than_the_hosts_are_tried_where_nothing_depends_on_them(text, keeps_block, sides, block):
    facts = draft_facts(text, read_kernels(text)[0], keeps_block=keeps_block)
    assert (facts.sides, facts.launch.block, facts.sizes) == (sides, block, ("n",))
    assert ("threads" in facts.parameters) == bool(sides)


def test_members_have_names_of_their_own():
    text = "struct View { float *data; int n; };\n__global__ void k(View a, View b) { a.data[b.n] = 1; }"
    facts = draft_facts(text, read_kernels(text)[0])
    assert facts.paths == {"data": "a.data", "n": "a.n", "b_data": "b.data", "b_n": "b.n"}


@pytest.mark.parametrize(
    ("macro", "values"),
    [
        ("BLOCK_ROWS 8", "[8]"),
        ("BLOCK_SIZE 128", "[64, 128, 256, 512, 1024]"),
        ("TILE 16", "[8, 16, 32]"),
        ("TILE 12", "[12]"),
    ],
)
def test_the_default_of_a_macro_is_among_the_values_to_try(macro, values):
    name = macro.split()[0]
    text = f"#ifndef {name}\n#define {macro}\n#endif\n" + KERNEL.replace("= 1;", f"= {name};")
    assert draft_facts(text, read_kernels(text)[0]).parameters[name] == values

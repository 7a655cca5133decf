from __future__ import annotations

import functools
import itertools
import os

import pytest
from compiling import ptx_of
from mistakes import coded

from lab.base.errors import UserError
from lab.isa.mix import module_mix
from lab.isa.ptx.module import read_ptx
from lab.operators.builtin import operator
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

ROOTS = kernels.search_path()
CLASSIC = "gemm/classic.cu.j2"  # takes whole tiles and the layout nn alone: test_classic.py
NAMES = [name for name in kernels.available(ROOTS) if name.startswith("gemm/") and name != CLASSIC]
MOVES = [name for name in kernels.available(ROOTS) if name.startswith(("copy/", "transpose/"))]


def tile(m, n, k, thread_m, thread_n):
    return {
        "block_m": m,
        "block_n": n,
        "block_k": k,
        "thread_m": thread_m,
        "thread_n": thread_n,
        "double_buffer": False,
        "unroll": k,
    }


LAYOUTS = ("nn", "nt", "tn", "tt")
SMALL = {
    "gemm/sgemm.cu.j2": {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4},
    "gemm/tensile.cu.j2": {"work_group_0": 8, "work_group_1": 8, "thread_tile_0": 4, "thread_tile_1": 4},
}
"""Settings that compile in a moment; `tests/kernel_src` compiles and executes these templates as they are."""
RUNGS = {"v5": tile(32, 32, 32, 4, 1), "64x64": tile(64, 64, 16, 4, 4), "128x128": {}}


def gemm(**values):
    return operator("gemm").problem({"m": 128, "n": 128, "k": 64, **values})


def mix_of(name, problem, **given):
    template = kernels.load(name, ROOTS)
    parameters = template.completed(given)
    assert Instance(template, parameters, problem).unmet() is None
    source = Instance(template, parameters, problem).source
    (entry,) = Instance(template, parameters, problem).launches.entries
    return next(mix for mix in mixes_of(source) if mix.name == entry)


@functools.lru_cache(maxsize=8)
def mixes_of(source):
    return module_mix(read_ptx(ptx_of(source)))


def declared():
    """Yield every template, alternating layouts and types; the remaining pairs are marked thorough.

    Of CUTLASS's template, which takes 3 s to compile, only the layouts that tests/kernel_src does not execute.
    """
    for number, name in enumerate(NAMES):
        for (i, layout), (j, dtype) in itertools.product(enumerate(LAYOUTS), enumerate(("float32", "float64"))):
            rare = (i + j + number) % 2 == 1 or ("cutlass" in name and layout not in {"nt", "tn"})
            marks = [pytest.mark.thorough] if rare else []
            yield pytest.param(name, layout, dtype, id=f"{dtype}-{layout}-{name}", marks=marks)


@pytest.mark.parametrize(("name", "layout", "dtype"), list(declared()))
def test_every_template_compiles_for_every_problem_that_it_declares(name, layout, dtype):
    problem = gemm(layout=layout, dtype=dtype)
    mix = mix_of(name, problem, **SMALL.get(name, {}))
    assert mix.hot_loop is not None
    assert mix.hot_loop.counts.fma > 0


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_every_move_compiles_for_every_type(name, dtype):
    problem = operator(name.partition("/")[0]).problem({"m": 64, "n": 64, "dtype": dtype})
    mix = mix_of(name, problem)
    assert mix.counts.by_class["ld.global"] == mix.counts.by_class["st.global"] > 0


@pytest.mark.parametrize(
    ("name", "given", "fma", "loads"),
    [
        ("gemm/v4_padded.cu.j2", {}, 1, 2),
        ("gemm/tiled.cu.j2", RUNGS["v5"], 4, 2),
        ("gemm/tiled.cu.j2", RUNGS["64x64"], 16, 2),
        ("gemm/tiled.cu.j2", RUNGS["128x128"], 64, 4),
        (CLASSIC, {"block_m": 32, "block_n": 32, "block_k": 32, "thread_m": 4, "thread_n": 1}, 4, 2),
        (CLASSIC, {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 4, "thread_n": 4}, 16, 2),
        (CLASSIC, {"unroll": 4}, 64, 4),
    ],
)
def test_the_ladder_has_the_known_ratios_of_fma_to_ld_shared(name, given, fma, loads):
    counts = mix_of(name, gemm(), **given).hot_loop.counts
    assert counts.fma_per_ld_shared == fma / loads
    assert counts.fma_over_fma_plus_ld_shared == fma / (fma + loads)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("unroll", [1, 2, 4, 8])
def test_vectors_and_unrolling_show_in_the_loop(width, unroll):
    counts = mix_of("gemm/tiled.cu.j2", gemm(), vector_width=width, unroll=unroll).hot_loop.counts
    assert counts.fma == 64 * unroll
    assert counts.ld_shared == 16 // width * unroll


def test_a_signed_index_shortens_the_loop():
    unsigned = mix_of("gemm/v1_coalesced.cu.j2", gemm()).hot_loop.counts
    signed = mix_of("gemm/v2_signed_index.cu.j2", gemm()).hot_loop.counts
    assert unsigned.fma == signed.fma
    assert (unsigned.instructions, signed.instructions) == (57, 21)  # of the SGEMM article's own source 60 and 21


def test_odd_sizes_choose_the_entry_without_vectors():
    template = kernels.load("gemm/tiled.cu.j2", ROOTS)
    parameters = template.completed({})
    assert Instance(template, parameters, gemm()).launches.entries == ("gemm_tiled",)
    for odd in ({"m": 127}, {"n": 127}, {"k": 63}, {"lda": 129}, {"ldb": 65}, {"ldc": 130}):
        (launch,) = Instance(template, parameters, gemm(**odd)).launches.steps
        assert launch.entry == "gemm_tiled_scalar"
        assert launch.grid == (1, 1, 1)


def test_machine_code_does_not_depend_on_the_size():
    template = kernels.load("gemm/tiled.cu.j2", ROOTS)
    parameters = template.completed({})
    assert Instance(template, parameters, gemm()).source == Instance(template, parameters, gemm(m=9, n=8, k=7)).source


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ({"thread_m": 1, "thread_n": 1, "block_m": 64, "block_n": 64}, "1024"),
        ({"block_k": 4, "unroll": 8}, "unrolled"),
        ({"padding": 1}, "aligned"),
        ({"block_k": 64, "block_m": 256, "block_n": 256, "thread_m": 16, "thread_n": 16}, "48 KiB"),
    ],
)
def test_requirements_say_why(given, because):
    template = kernels.load("gemm/tiled.cu.j2", ROOTS)
    assert because in Instance(template, template.completed(given), gemm()).unmet().because


FRONT = """{#---
summary: s
operator: gemm
entry: k
grid: [1]
block: [32]
arguments: {m: int32, A: T*}
---#}
"""


def written(tmp_path, text, name="mine.cu.j2"):
    (tmp_path / name).write_text(text)
    return kernels.load(name, (tmp_path,))


def test_a_template_of_the_users_own(tmp_path):
    template = written(tmp_path, FRONT + '{% include "part.j2" %} {{ T }} {{ dtype }} {{ element_bytes }}\n')
    (tmp_path / "part.j2").write_text("{{ layout }}")
    assert Instance(template, {}, gemm(dtype="float64")).source.split() == ["nn", "double", "float64", "8"]
    (launch,) = Instance(template, {}, gemm()).launches.steps
    assert launch.arguments == (("m", "int32"), ("A", "float32*"))
    assert (launch.grid, launch.block, launch.dynamic_shared_bytes) == ((1, 1, 1), (32, 1, 1), 0)


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("\n{{ nothing }}", 10, "'nothing' is undefined"),
        ("{{ m }}", 9, "'m' is undefined"),
        ("\n\n{% if %}", 11, "syntax error"),
        ('{% include "none.j2" %}', None, "no such include"),
        ("{{ ().__class__.__mro__ }}", 9, "has no '__class__'"),
        ("{{ 1 // 0 }}", 9, "fails"),
        ('{{ error("no such layout") }}', 9, "no such layout"),
    ],
)
def test_template_errors_name_their_line(tmp_path, body, line, words):
    template = written(tmp_path, FRONT + body)
    with pytest.raises(UserError, match=words) as caught:
        _ = Instance(template, {}, gemm()).source
    if words != "no such layout":  # that one comes from the template's author, as it is
        assert str(caught.value.at.file).endswith("mine.cu.j2")
        assert line is None or caught.value.at.line == line


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("entry: k", "entri: k", 4, "unknown key"),
        ("entry: k\n", "", None, "entry and entries"),
        ("A: T*", "A: T32*", 7, "unknown argument type"),
        ("grid: [1]", "grid: [1, 1, 1, 1]", 5, "at most 3"),
        ("grid: [1]", "grid: one", 5, "wrong value"),
        ("entry: k", "entry: k\nparameters: {p: {type: int, default: x, help: h}}", 5, "does not accept a value"),
        ("entry: k", "entry: k\nparameters: {a-b: {type: int, default: 1, help: h}}", 5, "identifier"),
        ("entry: k", "entry: k\nrequires: [{that: '1 +', because: b}]", 5, "not an expression"),
        ("{#---", "{#-- ", None, "no front matter"),
    ],
)
def test_front_matter_errors_name_their_line(tmp_path, old, new, line, words):
    with pytest.raises(UserError, match=words) as caught:
        written(tmp_path, FRONT.replace(old, new))
    assert line is None or caught.value.at.line == line


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("grid: [1]", "grid: [0]", "grid"),
        ("grid: [1]", "grid: [1, 65536]", "grid"),
        ("grid: [1]", "grid: [m / 2]", "grid"),
        ("grid: [1]", "grid: [q]", "grid[0]"),
        ("block: [32]", "block: [32, 64]", "block"),
        ("block: [32]", "block: [2048]", "block"),
        ("block: [32]", "block: [32]\nshared_bytes: -1", "shared_bytes"),
    ],
)
def test_illegal_launches_are_named(tmp_path, old, new, key):
    template = written(tmp_path, FRONT.replace(old, new))
    with pytest.raises(UserError) as caught:
        _ = Instance(template, {}, gemm()).launches
    assert caught.value.key == key


def test_an_argument_s_type_may_follow_from_the_problem(tmp_path):
    template = written(tmp_path, FRONT.replace("A: T*", "A: T*, C: '{out_dtype}*'"))
    (launch,) = Instance(template, {}, gemm(dtype="bfloat16", out_dtype="float32")).launches.steps
    assert dict(launch.arguments) == {"m": "int32", "A": "bfloat16*", "C": "float32*"}


def test_an_extension_of_a_problem_wants_a_template_that_names_it(tmp_path):
    plain, biased = gemm(dtype="float16"), gemm(dtype="float16", epilogue="bias")
    head, rest = "{#---\nsummary: s\noperator: gemm\nentry: e\ngrid: [1]\nblock: [1]\n", "---#}\n"
    unaware = written(tmp_path, f"{head}arguments: {{m: int32}}\n{rest}")
    assert unaware.unsupported(plain) is None
    assert unaware.unsupported(biased) == ("epilogue", ["no value"])
    bias = """"{'bias' if epilogue != 'none' else ''}": "{dtype}*\""""
    declared = f"problem: {{epilogue: [none, bias]}}\narguments: {{m: int32, {bias}}}\n"
    aware = written(tmp_path, f"{head}{declared}{rest}// {{{{ epilogue }}}}", "aware.cu.j2")
    assert aware.unsupported(gemm(dtype="float16", epilogue="bias_gelu")) == ("epilogue", ["none", "bias"])
    for problem, word, arguments in ((plain, "none", ["m"]), (biased, "bias", ["m", "bias"])):
        assert aware.unsupported(problem) is None
        instance = Instance(aware, {}, problem)
        assert instance.source.strip() == f"// {word}"
        assert [name for name, _ in instance.launches.steps[0].arguments] == arguments


def test_a_missing_template_is_suggested():
    with pytest.raises(UserError, check=coded("missing-file", key="template", found="gemm/tilde.cu.j2")):
        kernels.load("gemm/tilde.cu.j2", ROOTS)
    for outside in ("../pyproject.toml", "/etc/passwd"):
        with pytest.raises(UserError, check=coded("missing-file", key="template")):
            kernels.load(outside, ROOTS)


def test_parameters_know_what_they_accept():
    parameter = kernels.Parameter(type="int", default=1, help="h", min=0, max=9)
    assert [v for v in (0, 9, 10, -1, 1.5, True, "1") if parameter.refuses(v) is None] == [0, 9]
    assert parameter.refuses(10) == "int from 0 to 9"
    assert kernels.Parameter(type="float", default=1.0, help="h", min=0.5).refuses(0) == "float of at least 0.5"
    worded = kernels.Parameter(type="int", default=0, help="h", min=0, max=9, words=["occupancy"])
    assert [v for v in (9, "occupancy", 10, "9") if worded.refuses(v) is None] == [9, "occupancy"]
    assert worded.refuses(10) == "int from 0 to 9 or occupancy"
    assert kernels.Parameter(type="int", default=1, help="h", max=4096).refuses(4097) == "int of at most 4096"
    switch = kernels.Parameter(type="bool", default=True, help="h")
    assert [v for v in (True, False, 1, "true") if switch.refuses(v) is None] == [True, False]
    real = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8"]
    assert list(itertools.chain(kernels.C_TYPES)) == [*real, "complex64", "complex128"]


MAPPED = FRONT.replace(
    "block: [32]",
    "block: [p.threads]\n"
    "parameters: {p: {type: mapping, default: cyclic(width=2), help: h}, q: {type: int, default: 1, help: h}}\n"
    "derived: {w: p.widest(4)}\nrequires: [{that: p.items == 16, because: sixteen}]\n"
    "predicts: {global.load: 'p.sectors(element_bytes, w if entry == \"k\" and m > 9 else 1)'}",
)


def test_a_mapping_is_text_in_a_file_and_an_object_in_a_template(tmp_path):
    template = written(tmp_path, MAPPED + '{{ p.index("i") }} {{ p.guard("i") }} {{ p.threads }} {{ w }}')
    parameters = template.completed({})
    assert parameters == {"p": "cyclic(width=2)", "q": 1}
    assert template.mappings == ("p",)
    assert Instance(template, parameters, gemm()).source == "((i & 1) + (t << 1) + ((i >> 1) << 9)) true 256 2"
    assert Instance(template, parameters, gemm()).launches.steps[0].block == (256, 1, 1)
    assert Instance(template, parameters, gemm()).unmet() is None
    assert Instance(template, {**parameters, "p": "blocked(items=3)"}, gemm()).unmet().because == "sixteen"
    assert Instance(template, {**parameters, "p": "cyclic(width=4)"}, gemm()).predictions == {"global.load": 16}
    assert Instance(template, {**parameters, "p": "cyclic(width=8)"}, gemm(m=8)).predictions == {"global.load": 32}


def test_wrong_mappings_are_refused_where_they_stand(tmp_path):
    declared = written(tmp_path, MAPPED).declares.parameters["p"]
    assert declared.refuses("[3] | [4] => [i0, t0]") is None
    assert declared.refuses(4) == "mapping"
    assert declared.refuses("[3] | [4] => [i0, x]") == (
        "t0 (the mapping is wrong at column 19: no such dimension, found 'x')"
    )
    with pytest.raises(UserError, check=coded("wrong-value", key="p", found="[3]", line=7)):
        written(tmp_path, MAPPED.replace("cyclic(width=2)", "'[3]'"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("global.load", "texture.load", "unknown key|wrong"),
        ("p.sectors(element_bytes, w ", "nothing + (w ", "unknown name 'nothing'"),
        ("p.sectors(element_bytes, w ", "p.elephants(element_bytes, w ", "elephants"),
        ("'p.sectors(element_bytes, w if entry == \"k\" and m > 9 else 1)'", "'\"many\"'", "not a number"),
    ],
)
def test_wrong_predictions_are_named(tmp_path, old, new, words):
    assert old in MAPPED

    def predicted():
        template = written(tmp_path, MAPPED.replace(old, new))
        return Instance(template, template.completed({}), gemm()).predictions

    with pytest.raises(UserError, match=words):
        predicted()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "MT128x128_DU8_GSU1_TT8x8_VW4_WG16x16x1_PGR1_PLR1_WGM8"),
        (
            {"work_group_1": 8, "local_split_u": 2, "thread_tile_0": 6, "global_split_u": 4, "loop_unroll": 4},
            "MT96x64_DU8_GSU4A_TT6x8_VW2_WG16x8x2_PGR1_PLR1_WGM8",
        ),
        (
            {
                "global_split_u": 2,
                "global_split_u_algorithm": "workspace",
                "global_split_u_work_group_mapping_round_robin": True,
                "num_loads_coalesced_b": 2,
                "global_read_coalesce_vector_b": False,
            },
            "MT128x128_DU8_GSU2WRR_TT8x8_VW4_WG16x16x1_PGR1_PLR1_WGM8_NLCB2_GRCVB0",
        ),
    ],
)
def test_a_point_is_named_by_its_abbreviation(given, name):
    template = kernels.load("gemm/tensile.cu.j2", ROOTS)
    assert Instance(template, template.completed(given), gemm()).abbreviation == name


def test_splitting_k_among_blocks_takes_another_launch():
    template = kernels.load("gemm/tensile.cu.j2", ROOTS)
    split = {"global_split_u": 4}
    by_atomics = template.completed(split)
    by_workspace = template.completed({**split, "global_split_u_algorithm": "workspace"})
    assert Instance(template, by_atomics, gemm()).launches.entries == ("scale", "gemm_vectors")
    assert Instance(template, by_atomics, gemm(beta=1.0)).launches.entries == ("gemm_vectors",)
    summed = Instance(template, by_workspace, gemm(m=127)).launches
    assert summed.entries == ("gemm_elements", "reduce")
    assert summed.workspace[0].elements == 127 * 128 * 4


def test_a_template_stays_below_its_roots_and_is_a_regular_file(tmp_path):
    root = tmp_path / "own"
    root.mkdir()
    (tmp_path / "outside.cu.j2").write_text(FRONT)
    (root / "link.cu.j2").symlink_to(tmp_path / "outside.cu.j2")
    os.mkfifo(root / "fifo.cu.j2")
    for name in ("link.cu.j2", "a" * 300, "a\0b"):
        with pytest.raises(UserError, check=coded("missing-file", key="template")):
            kernels.load(name, (root,))
    with pytest.raises(UserError, check=coded("unreadable", found="a FIFO")):
        kernels.load("fifo.cu.j2", (root,))


def test_a_template_is_read_again_when_its_text_has_changed(tmp_path):
    before = written(tmp_path, FRONT)
    assert written(tmp_path, FRONT) is before
    assert written(tmp_path, FRONT.replace("[32]", "[64]")).declares.block == [64]
    for _ in range(2):
        with pytest.raises(UserError, match="no front matter"):
            written(tmp_path, "")


def test_requirements_of_parameters_alone_hold_at_any_size():
    template = kernels.load("hgemm/v7_cluster.cu.j2", ROOTS)
    half = {"dtype": "bfloat16", "m": 60}
    for given, alone, together in (({}, None, "16 bytes"), ({"blocks": 3}, "whole clusters", "whole clusters")):
        instance = Instance(template, template.completed(given), gemm(**half))
        found = instance.unmet(sizes=False)
        assert found is None if alone is None else alone in found.because
        assert together in instance.unmet().because

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from library_support import (
    batched_library,
    invented_grid,
    invented_library,
    mapped_library,
    random_batches,
    random_sizes,
    small_library,
)
from mistakes import coded
from narrowing import known

from lab.base.errors import UserError
from lab.library import dispatch
from lab.library.emit import Selection, to_python, to_source, write
from lab.library.grid import Grid
from lab.library.package import SCHEMA, MeasuredSize, from_json, to_json
from lab.library.picking import picked
from lab.library.specialise import kernel
from lab.library.tree import BATCH_SPLIT, Exact, build
from lab.templates import front_matter as kernels
from lab.toolchain import locate

GCC = shutil.which("gcc")
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic")
needs_gcc = pytest.mark.skipif(GCC is None, reason="gcc compiles what is emitted")

DRIVER = """
#include <stdio.h>
#include "sgemm.h"
int main(void)
{
    long long m, n, k;
    while (scanf("%lld %lld %lld", &m, &n, &k) == 3) {
        const int kernel = sgemm_select(m, n, k);
        printf("%s\\n", kernel < 0 ? "none" : sgemm_kernel_name(kernel));
    }
    return sgemm_kernel_name(-1) != 0 || sgemm_kernel_name(SGEMM_KERNELS) != 0;
}
"""

BATCH_DRIVER = (
    DRIVER.replace("m, n, k", "m, n, k, batch")
    .replace("%lld", "%lld %lld", 1)
    .replace("&k) == 3", "&k, &batch) == 4")
    .replace("sgemm_select", "sgemm_select_batched")
)


def cubins(library):
    """Return placeholder bytes as the library's cubins; these tests never load them."""
    return {kernel.name: b"test data" for kernel in library.kernels}


def compiled(library, folder, selection=Selection.NESTED):
    """Compile the emitted C with CUDA's own header; return gcc's exit code and messages."""
    write(library, cubins(library), folder, selection)
    headers = locate.headers()
    assert headers is not None
    command = [GCC, *FLAGS, "-c", "-I", headers, "-o", folder / "sgemm.o", folder / "sgemm.c"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.returncode, run.stderr


def asked_of_c(folder, sizes, driver=DRIVER):
    """Return the selections of the emitted C, compiled without any CUDA header."""
    (folder / "driver.c").write_text(driver)
    command = [GCC, *FLAGS, "-DSGEMM_SELECTION_ONLY", "-o", folder / "ask", folder / "driver.c", folder / "sgemm.c"]
    subprocess.run(command, check=True)
    text = "\n".join(" ".join(map(str, size)) for size in sizes)
    return subprocess.run([folder / "ask"], input=text, capture_output=True, text=True, check=True).stdout.split()


def asked_of_python(library, sizes):
    """Return the selections of the emitted Python."""
    names: dict = {}
    exec(compile(to_python(library), "emitted.py", "exec"), names)  # noqa: S102 - it is what the test is about
    return [names["select"](*size) for size in sizes]


@needs_gcc
@pytest.mark.parametrize("selection", Selection)
def test_c_python_and_json_agree_on_100000_sizes(tmp_path, selection):
    library = small_library()
    write(library, cubins(library), tmp_path, selection)
    corners = [
        (d[0] + e[0], d[1] + e[1], d[2] + e[2])
        for d in [(x.m, x.n, x.k) for x in library.logic.exact]
        for e in itertools.product((-1, 0, 1), repeat=3)
    ]
    at_thresholds = [
        tuple(split.threshold + d if axis == split.axis else 777 for axis in range(3))
        for split in library.logic.splits
        for d in (-1, 0, 1)
    ]
    sizes = [*map(tuple, random_sizes(100_000, seed=7).tolist()), *corners, *at_thresholds, (2**31 - 1,) * 3]
    loaded = dispatch.load(tmp_path)
    by_json = [loaded.select(*size) for size in sizes]
    assert len(set(by_json)) == len(library.kernels) > 3
    assert asked_of_c(tmp_path, sizes) == by_json
    assert asked_of_python(library, sizes) == by_json


@needs_gcc
@pytest.mark.parametrize("selection", Selection)
def test_c_refuses_what_is_no_size(tmp_path, selection):
    library = small_library()
    write(library, cubins(library), tmp_path, selection)
    assert asked_of_c(tmp_path, [(0, 1, 1), (1, -4, 1), (1, 1, 2**31), (1, 1, 1)])[:3] == ["none"] * 3


@needs_gcc
@pytest.mark.parametrize("layout", ["nn", "tt"])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("selection", Selection)
def test_the_whole_c_compiles_without_warnings(tmp_path, layout, single, selection):
    grid = Grid.of({(1, 1, 1): {"only": 1.0}}) if single else invented_grid((16, 128, 900))
    library = invented_library(build(grid, None if single else invented_grid((5, 9))), grid, layout)
    assert compiled(library, tmp_path, selection) == (0, "")


@pytest.mark.parametrize(
    ("layout", "a", "b"),
    [
        ("nn", "p->m, p->k", "p->k, p->n"),
        ("nt", "p->m, p->k", "p->n, p->k"),
        ("tn", "p->k, p->m", "p->k, p->n"),
        ("tt", "p->k, p->m", "p->n, p->k"),
    ],
)
def test_leading_dimensions_are_checked_against_stored_matrices(layout, a, b):
    grid = Grid.of({(1, 1, 1): {"only": 1.0}})
    source = to_source(invented_library(build(grid, None), grid, layout))
    assert f"!fits({a}, p->lda) || !fits({b}, p->ldb) || !fits(p->m, p->n, p->ldc)" in source


def test_json_round_trips():
    library = small_library()
    library = dataclasses.replace(library, held_out=library.loss)
    assert from_json(to_json(library)) == library
    assert json.loads(to_json(library))["schema"] == SCHEMA


def test_json_of_single_products_says_nothing_of_batches():
    measured = (MeasuredSize(4, 6, 8, 0, 1.0),)
    assert "batch" not in to_json(dataclasses.replace(small_library(), measured=measured))
    batches = dataclasses.replace(batched_library(), measured=(*measured, MeasuredSize(4, 6, 8, 0, 2.0, None, 3)))
    assert from_json(to_json(batches)) == batches
    assert [one["batch"] for one in json.loads(to_json(batches))["logic"]["exact"]] == [1, 3]


@pytest.mark.parametrize("key", ["logic", "general", "measured"])
def test_a_library_of_single_products_knows_no_batch(key):
    library = mapped_library()
    own = library.logic if key == "logic" else known(library.general)
    logic = dataclasses.replace(own, exact=(Exact(1, 1, 1, 1, 2),))
    change = {"measured": (MeasuredSize(1, 1, 1, 0, 1.0, None, 2),)} if key == "measured" else {key: logic}
    with pytest.raises(UserError, match="a library of single products") as raised:
        dataclasses.replace(library, **change)
    assert raised.value.key == key


@needs_gcc
@pytest.mark.parametrize("selection", Selection)
def test_c_python_and_json_agree_on_batches(tmp_path, selection):
    sizes = random_batches(6000, 4)
    first = sizes[:200]
    rng = np.random.default_rng(1)

    def grid(of):
        return Grid.of({size: {f"k{i}": ms for i, ms in enumerate(rng.uniform(1, 9, 5))} for size in of})

    library = batched_library(logic=build(grid(first), grid([(5, 6, 7, 1), (5, 6, 7, 3), *sizes[200:230]])))
    sizes += [(5, 6, 7, batch) for batch in range(1, 5)] + [(2**31 - 1,) * 4]
    assert any(split.axis == BATCH_SPLIT for split in library.logic.splits)
    check_batches(tmp_path, selection, library, sizes)


@needs_gcc
@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_what_kernels_of_batches_require_decides_alike(tmp_path, selection, layout):
    sizes = [(4, 6, 8, batch) for batch in (1, 2, 3, 7, 8)] + [(3, 6, k, 9) for k in (3, 4)] + random_batches(2000, 5)
    check_batches(tmp_path, selection, batched_library(layout), sizes)
    assert compiled(batched_library(layout), tmp_path, selection) == (0, "")


def check_batches(folder, selection, library, sizes):
    """Check that C, Python and dispatch select the same kernels for batches and for single GEMMs."""
    write(library, cubins(library), folder, selection)
    loaded = dispatch.load(folder)
    for asked, driver in ((sizes, BATCH_DRIVER), ([size[:3] for size in sizes], DRIVER)):
        names = [loaded.select(*size) for size in asked]
        assert len(set(names)) == len(library.kernels)
        assert asked_of_c(folder, asked, driver) == names == asked_of_python(library, asked)
    assert asked_of_c(folder, [(1, 1, 1, 0), (1, 1, 1, 2**31)], BATCH_DRIVER) == ["none"] * 2


@given(
    st.dictionaries(
        st.tuples(*[st.integers(1, 2**31 - 1)] * 3), st.tuples(*[st.sampled_from([1.0, 2.0])] * 3), min_size=1
    )
)
@settings(max_examples=40)
def test_any_logic_round_trips(times):
    grid = Grid.of({size: dict(zip("abc", row, strict=True)) for size, row in times.items()})
    library = invented_library(build(grid, grid), grid)
    assert from_json(to_json(library)) == library
    assert asked_of_python(library, grid.sizes) == [library.logic.kernels[library.logic.select(*s)] for s in grid.sizes]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": SCHEMA + 1}, "another version"),
        ({"name": "not a name"}, "not an identifier"),
        ({"arch": "*/"}, "architecture"),
        ({"dtype": "int8"}, "not a library"),
        ({"unknown": 1}, "not a library"),
        ({"kernels": []}, "not those of its logic"),
        ({"logic": {"kernels": ["a"], "root": 0}}, "tree is broken"),
    ],
)
def test_json_that_is_no_library_is_refused(change, says):
    text = json.dumps({**json.loads(to_json(small_library())), **change})
    with pytest.raises(UserError, match=says) as caught:
        from_json(text, "shipped/sgemm.json")
    assert str(caught.value).startswith("shipped/sgemm.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [("cubin", "../evil"), ("name", 'a"'), ("launches", ())],
)
def test_a_kernel_that_cannot_be_shipped_is_refused(field, value):
    library = small_library()
    first = dataclasses.replace(library.kernels[0], **{field: value})
    logic = dataclasses.replace(library.logic, kernels=(first.name, *library.logic.kernels[1:]))
    with pytest.raises(UserError):
        dataclasses.replace(library, kernels=(first, *library.kernels[1:]), logic=logic)


def test_machine_code_must_be_there(tmp_path):
    with pytest.raises(UserError, check=coded("missing-file", key="cubins", found="tile_16x16")):
        write(small_library(), {}, tmp_path)


@needs_gcc
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_kernels_of_real_templates_compile_without_warnings(tmp_path, layout):
    names = ("sgemm", "tiled", "v4_padded")
    found = [kernels.load(f"gemm/{name}.cu.j2", kernels.search_path()) for name in names]
    shipped = tuple(
        kernel(name, cubin=f"{name}.cubin", template=t, parameters=t.completed({}), dtype="float32", layout=layout)
        for name, t in zip(names, found, strict=True)
    )
    grid = Grid.of({(2**i, 1, 1): {name: 1.0 + (i != j) for j, name in enumerate(names)} for i in range(3)})
    logic = build(grid)
    library = dataclasses.replace(
        invented_library(logic, grid, layout), kernels=tuple(shipped[names.index(name)] for name in logic.kernels)
    )
    assert set(logic.kernels) == set(names)
    assert compiled(library, tmp_path) == (0, "")


@needs_gcc
@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_what_kernels_require_decides_alike_in_c_python_and_json(tmp_path, selection, layout):
    library = mapped_library(layout)
    write(library, cubins(library), tmp_path, selection)
    sizes = [tuple(size) for size in random_sizes(2000, 3).tolist()]
    sizes += [(m, n, k) for m in (1, 4, 299, 300, 304) for n in (2, 4) for k in (3, 4)]
    names = [library.kernels[picked(library, *size)].name for size in sizes]
    assert set(names) == {"mapped", "small", "large"}
    assert asked_of_c(tmp_path, sizes) == names == asked_of_python(library, sizes)
    assert from_json(to_json(library)) == library


@needs_gcc
@pytest.mark.parametrize("selection", Selection)
def test_c_with_tensor_maps_compiles_without_warnings(tmp_path, selection):
    assert compiled(mapped_library(), tmp_path, selection) == (0, "")


def test_c_counts_resident_blocks_for_one_block_alone():
    library = mapped_library()
    mapped = library.kernels[0]
    launch = dataclasses.replace(mapped.launches[0], block=("m", "1", "1"))
    changed = dataclasses.replace(mapped, launches=(launch,))
    with pytest.raises(UserError, check=coded("mismatch", key="mapped", found="65536")):
        to_source(dataclasses.replace(library, kernels=(changed, *library.kernels[1:])))

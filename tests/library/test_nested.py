from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from library_support import invented_library, random_sizes, small_library

from lab.base.sizes import Size
from lab.library.emit import Selection, to_header, to_source
from lab.library.grid import Grid
from lab.library.nested import nested_tests, remainders
from lab.library.package import Library
from lab.library.tree import Exact, Logic, Split, build

GCC = shutil.which("gcc")
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread")

DRIVER = """
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
{% includes %}

typedef int (*pick)(int64_t, int64_t, int64_t);
static const pick tables[] = { {% tables %} }, nested[] = { {% nested %} };
enum { LIBRARIES = sizeof tables / sizeof *tables, THREADS = 3 };
static int64_t *sizes;
static int count;

/* Each thread goes through all sizes twice, in an order of its own: what it asks for first was not remembered. */
static void *different(void *start)
{
    int64_t found = 0;
    for (int i = 0; i < 2 * count; ++i) {
        const int64_t *size = sizes + 3 * ((i + (int64_t)(intptr_t)start * count / THREADS) % count);
        for (int l = 0; l < LIBRARIES; ++l)
            found += tables[l](size[0], size[1], size[2]) != nested[l](size[0], size[1], size[2]);
    }
    return (void *)(intptr_t)found;
}

int main(void)
{
    long long m, n, k;
    sizes = malloc(3 * sizeof *sizes * 200000);
    while (scanf("%lld %lld %lld", &m, &n, &k) == 3) {
        sizes[3 * count] = m, sizes[3 * count + 1] = n, sizes[3 * count + 2] = k;
        ++count;
    }
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, different, (void *)i);
    int64_t all = 0;
    for (int i = 0; i < THREADS; ++i) {
        void *found;
        pthread_join(threads[i], &found);
        all += (intptr_t)found;
    }
    printf("%d sizes, %lld differences\\n", count, (long long)all);
    for (int l = 0; l < LIBRARIES; ++l) printf("%d ", nested[l](sizes[0], sizes[1], sizes[2]));
    return 0;
}
"""


def random_library(seed: int, count: int, *, exact: bool, cells: bool) -> Library:
    """A library whose tree has no pattern: times are random, and so is the fastest kernel."""
    rng = np.random.default_rng(seed)

    def grid(of: np.ndarray) -> Grid:
        return Grid.of(
            {size: {f"k{i}": ms for i, ms in enumerate(rng.uniform(1, 9, 5))} for size in map(tuple, of.tolist())}
        )

    ranges = grid(random_sizes(count, seed))
    edges = tuple(tuple(sorted({size[axis] for size in ranges.sizes})) for axis in range(3)) if cells else None
    logic = build(ranges, grid(random_sizes(count, seed + 1) // 3 + 1) if exact else None, edges=edges)
    return invented_library(logic, ranges)


def chain(count: int) -> Library:
    """A tree as deep as it has splits: of each split the other side is a leaf."""
    splits = [Split(i % 3, 10 * (count - i), i + 1, ~(i % 4)) for i in range(count - 1)]
    logic = Logic(tuple(f"k{i}" for i in range(4)), 0, (*splits, Split(0, 3, ~1, ~2)))
    times: dict[Size, dict[str, float]] = {(1, 1, 1): dict.fromkeys(logic.kernels, 1.0)}
    return invented_library(logic, Grid.of(times))


def sizes_at(libraries: list[Library]) -> list[Size]:
    """Random sizes, and those at thresholds and around exact sizes."""
    sizes = [tuple(size) for size in random_sizes(20_000, seed=5).tolist()]
    for library in libraries:
        for split in library.logic.splits:
            for off in (-1, 0, 1):
                sides = [777, 778, 779]
                sides[split.axis % 3] = max(1, split.threshold + off)
                sizes.append(tuple(sides))
        sizes += [(e.m + d, e.n, e.k) for e in library.logic.exact for d in (0, 1)]
    return [*sizes, (2**31 - 1,) * 3, (2**31, 1, 1), (0, 1, 1), (1, -1, 1), (1, 1, 2**40), (1, 1, 2**32 + 1)]


@pytest.mark.skipif(GCC is None, reason="gcc compiles what is emitted")
def test_tables_and_nested_tests_pick_the_same_kernels_in_every_thread(tmp_path: Path) -> None:
    libraries = [
        small_library(),
        random_library(1, 300, exact=True, cells=False),
        random_library(2, 400, exact=False, cells=True),
        random_library(3, 1, exact=True, cells=False),
        random_library(4, 1, exact=False, cells=False),
        chain(600),
    ]
    names: dict[Selection, list[str]] = {}
    for i, library in enumerate(libraries):
        for selection in Selection:
            named = replace(library, name=f"{selection}_{i}")
            (tmp_path / f"{named.name}.h").write_text(to_header(named))
            (tmp_path / f"{named.name}.c").write_text(
                f"#define {named.name.upper()}_SELECTION_ONLY\n{to_source(named, selection)}"
            )
            names.setdefault(selection, []).append(named.name)
    text = DRIVER
    every = [name for own in names.values() for name in own]
    text = text.replace(
        "{% includes %}", "\n".join(f'#define {one.upper()}_SELECTION_ONLY\n#include "{one}.h"' for one in every)
    )
    for selection, word in ((Selection.TABLE, "{% tables %}"), (Selection.NESTED, "{% nested %}")):
        text = text.replace(word, ", ".join(f"{name}_select" for name in names[selection]))
    (tmp_path / "driver.c").write_text(text)
    files = [str(tmp_path / f"{name}.c") for name in [*every, "driver"]]
    subprocess.run([str(GCC), *FLAGS, "-o", str(tmp_path / "ask"), *files], check=True)
    asked = sizes_at(libraries)
    lines = "\n".join(" ".join(map(str, size)) for size in asked)
    run = subprocess.run([tmp_path / "ask"], input=lines, capture_output=True, text=True, check=True)
    told, first = run.stdout.splitlines()
    assert told == f"{len(asked)} sizes, 0 differences"
    assert [int(one) for one in first.split()] == [library.logic.select(*asked[0]) for library in libraries]


def test_the_side_with_fewer_leaves_is_nested() -> None:
    lines = nested_tests(chain(600).logic)
    assert max(len(line) - len(line.lstrip()) for line in lines) == 4
    assert lines[:4] == ("if (m >= 6000) {", "    return 0;", "}", "if (n >= 5990) {")


def test_tests_of_a_small_tree() -> None:
    logic = Logic(
        ("a", "b", "c"),
        0,
        (Split(0, 64, ~0, 1), Split(5, 1, 2, ~1), Split(3, 1, ~2, ~0)),
        (Exact(5, 6, 7, 1), Exact(5, 6, 9, 2), Exact(5, 8, 1, 0)),
    )
    assert remainders(logic) == (("m_mod_4", "m"), ("k_mod_4", "k"))
    text = " ".join(" ".join(nested_tests(logic)).split())
    assert text == (
        "switch (m) { case 5: switch (n) { case 6: switch (k) { case 7: return 1; case 9: return 2; } break; "
        "case 8: switch (k) { case 1: return 0; } break; } break; } "
        "if (m < 64) { return 0; } if (k_mod_4 >= 1) { return 1; } if (m_mod_4 < 1) { return 2; } return 0;"
    )

"""docs/reference/mapping.md: it prints what `lab map` prints, and every claim of a proof is put to the race finder."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from compiling import ptx_of
from typer.testing import CliRunner

from lab.base.errors import UserError
from lab.cli.main import app
from lab.emulator.api import launch
from lab.isa.ptx.module import read_ptx
from lab.templates.mapping import text as notation
from lab.templates.mapping.mapping_model import ThreadMapping
from lab.templates.mapping.proof import obligations
from lab.templates.mapping.scopes import SCOPES, LaunchShape, check_launch, number, tile_of
from lab.templates.mapping.text import parse

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "mapping.md").read_text()
SOURCES = (ROOT / "docs" / "explanation" / "sources.md").read_text()
CONSOLE = re.findall(r"```console\n\$ lab map (.*)\n((?:.*\n)*?)```", PAGE)


@pytest.mark.parametrize(("words", "shown"), CONSOLE, ids=[words for words, _ in CONSOLE])
def test_the_page_shows_what_is_printed(words, shown):
    done = CliRunner().invoke(app, ["map", *shlex.split(words)], env={"COLUMNS": "120"})
    printed = done.stdout if done.exit_code == 0 else f"error: {done.exception}"
    assert [line.rstrip() for line in printed.rstrip().splitlines()] == shown.splitlines()


def test_the_table_shows_the_maps():
    rows = re.findall(r"^\| `(\[.*?)` \| ([−\d ]+) \|", PAGE, re.MULTILINE)
    assert len(rows) == 14
    for text, owners in rows:
        found = parse(text.replace("\\|", "|")).access_map().tolist()
        assert owners == " ".join("−" if owner < 0 else str(owner) for owner in found)


def documented() -> dict[str, ThreadMapping]:
    """Every mapping in code of the page and the notation's description, by its notation."""
    mappings = {}
    for page in (PAGE, notation.__doc__ or ""):
        words = re.findall(r"`+([^`]+)`+", page.replace("```", "\n")) + re.findall(r'lab map "([^"]+)"', page)
        for text in [*words, *page.splitlines()]:
            try:
                mapping = parse(text.replace("\\|", "|").strip())
            except UserError:
                continue
            mappings[str(mapping)] = mapping
    return mappings


MAPPINGS = documented()


def shape_of(mapping: ThreadMapping, wholes: int) -> LaunchShape:
    """Return a launch that the mapping fits, with so many blocks or warps where it shares out the data of one."""
    levels = mapping.scopes
    if not levels:
        block = next(size for size in range(min(mapping.threads, 1024), 0, -1) if mapping.threads % size == 0)
        return LaunchShape((mapping.threads // block, 1, 1), (block, 1, 1))
    tile, counted = tile_of(levels), {"thread": 1, "warp": tile_of(levels), "block": 32}
    outermost, units = levels[0]
    if outermost.unit == "block":
        in_block = mapping.threads // units * counted[levels[-1][0].unit] if len(levels) > 1 else 32
        shape = LaunchShape((units, 1, 1), (in_block, 1, 1))
    elif outermost.whole == "grid":
        shape = LaunchShape((2, 1, 1), (mapping.threads * counted[levels[-1][0].unit] // 2, 1, 1))
    elif outermost.whole == "warp":
        shape = LaunchShape((1, 1, 1), (tile * wholes, 1, 1))
    else:
        shape = LaunchShape((wholes, 1, 1), (mapping.threads * counted[levels[-1][0].unit], 1, 1))
    check_launch(levels, shape)
    return shape


@dataclass(frozen=True)
class Case:
    """One claim and the kernel that writes what it speaks of."""

    mapping: ThreadMapping
    writes: str
    race_free: bool
    shape: LaunchShape
    least: int
    most: int

    def source(self, name: str) -> str:
        levels = self.mapping.scopes
        gid = "(int)(threadIdx.x + blockDim.x * blockIdx.x)"
        unit = {"thread": 1, "warp": tile_of(levels), "block": 1024}[levels[-1][0].unit if levels else "thread"]
        condition = "true" if "several threads" in self.writes else f"threadIdx.x % {unit} == 0"
        guard = "true" if "without the guard" in self.writes else self.mapping.guard()
        return f"""
extern "C" __global__ void {name}(int *out) {{
    const int t = {number(levels) if levels else gid};
    for (int i = 0; i < {self.mapping.items}; ++i)
        if ({condition} && {guard}) out[{self.mapping.index()} - ({self.least})] = {gid} * {self.mapping.items} + i;
}}"""


def cases() -> list[Case]:
    all_cases: list[Case] = []
    for mapping in MAPPINGS.values():
        raw = mapping.unguarded
        known = raw if raw is not None else mapping.elements
        for obligation in obligations(mapping):
            if obligation.race_free is not None:
                shape = shape_of(mapping, 2 if "to one array" in obligation.writes else 1)
                all_cases.append(
                    Case(
                        mapping,
                        obligation.writes,
                        obligation.race_free,
                        shape,
                        int(min(known.min(), 0)),
                        int(known.max()),
                    )
                )
    return all_cases


def test_the_race_finder_agrees_with_every_claim():
    every = cases()
    assert len(MAPPINGS) >= 30
    assert {one.scope for one in MAPPINGS.values()} >= set(SCOPES.values())
    module = read_ptx(ptx_of("".join(case.source(f"kernel_{n}") for n, case in enumerate(every))))
    for n, case in enumerate(every):
        out = np.zeros(case.most - case.least + 1, np.int32)
        done = launch(module, f"kernel_{n}", case.shape.grid, case.shape.block, [out])
        kinds = {finding.kind for finding in done.findings}
        assert kinds == (set() if case.race_free else {"global-race"}), (str(case.mapping), case.writes, kinds)
    races = sum(not case.race_free for case in every)
    assert f"{len(every)} claims on {len(MAPPINGS)} documented maps, {races} of them races" in SOURCES


def test_blocks_do_not_meet_in_shared_memory():
    """A write that races across blocks in global memory does not race in shared memory, which is per block."""
    mapping = parse("thread in block: [3] | [4]")
    text = f"""
extern "C" __global__ void shared_tile(int *out) {{
    __shared__ int tile[12];
    const int t = {number(mapping.scopes)};
    for (int i = 0; i < 3; ++i) tile[{mapping.index()}] = 100 * blockIdx.x + 10 * t + i;
    __syncthreads();
    for (int e = t; e < 12; e += 4) out[12 * blockIdx.x + e] = tile[e];
}}"""
    out = np.zeros(24, np.int32)
    assert launch(ptx_of(text), "shared_tile", 2, 4, [out]).clean
    assert out.tolist() == [100 * b + 10 * t + i for b in range(2) for t in range(4) for i in range(3)]


def test_more_threads_than_the_mapping_has_would_race():
    """Why a launch must fit: thread 4 of 5 is given an element of thread 0."""
    mapping = parse("thread in block: [3] | [4] => [t0, i0]")
    text = f"""
extern "C" __global__ void five(int *out) {{
    const int t = threadIdx.x;
    for (int i = 0; i < 3; ++i) out[{mapping.index()}] = 10 * t + i;
}}"""
    done = launch(ptx_of(text), "five", 1, 5, [np.zeros(16, np.int32)])
    assert {finding.kind for finding in done.findings} == {"global-race"}

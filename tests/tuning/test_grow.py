from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mistakes import coded
from tuning_support import context, kernel, tuning

from lab.base.errors import UserError
from lab.base.sizes import Size, extents
from lab.library import dispatch
from lab.library.package import BATCH_SIZES, TimesKind
from lab.measured.timing import Kind
from lab.store.tuning import TuningStore
from lab.store.tuning_model import TimingStage
from lab.tuning import grow
from lab.tuning.bench import Ledger
from lab.tuning.grow import WrittenLibrary
from lab.tuning.race import FinalStep, TuningContext, final_of, race

TEXT = """question: Which?
arch: sm_90
{library}
groups:
  - name: tensile
    template: gemm/tensile.cu.j2
    BenchmarkFinalParameters:
      - range: [[64, 64, 512], [64, 64, 512], 64]
      - exact: [7, 7, 4096]
"""
LIBRARY = "library: {name: made, held_out: 5, refine: 6}"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with TuningStore(tmp_path / "run", create=True) as store:
        yield Ledger(store)


def prepared(folder: Path, ledger: Ledger, library: str = LIBRARY) -> tuple[TuningContext, FinalStep]:
    """`few` is the faster one below 200 rows, `many` above, `never` nowhere; at the exact size `many` alone ran."""
    read = tuning(folder, text=TEXT.format(library=library))
    (group,) = read.groups
    few, many, never = (kernel(group, thread_tile_0=tile) for tile in (2, 4, 8))

    def ms(name: str, size: Size) -> float | None:
        if size == (7, 7, 4096):
            return 1.0 if name == many.facts.name else None
        if name == never.facts.name:
            return 9.0
        return 1.0 if (name == few.facts.name) == (size[0] < 200) else 2.0

    run, _ = context(read, ledger, ms)
    final = final_of(read, group.type, [few, many, never], frozenset())
    race(run, final)
    return run, final


def test_a_library_picks_the_kernel_that_was_fastest(tmp_path: Path, ledger: Ledger) -> None:
    run, final = prepared(tmp_path, ledger)
    grown = grow.library(run, final, tmp_path, "invented times")
    assert grown is not None
    assert grown.folder == tmp_path / "made_nn"
    picker = dispatch.load(grown.folder)
    few, many, _ = (kernel.facts.name for kernel in final.kernels)
    for size in final.sizes.ranges:
        assert picker.select(*extents(size)[:3]) == (few if size[0] < 200 else many)
    assert picker.select(7, 7, 4096) == many
    assert picker.library.times is TimesKind.MEASURED
    assert picker.library.source == "invented times"
    assert picker.library.loss == grown.facts.loss
    assert grown.facts.kernels == picker.library.logic.kernels
    assert grown.facts.loss.mean == 0
    for name in grown.facts.kernels:
        assert (grown.folder / f"{name}.cubin").read_bytes() == b"\x7fELF"


def test_thresholds_and_losses_have_times_of_their_own(tmp_path: Path, ledger: Ledger) -> None:
    run, final = prepared(tmp_path, ledger)
    grown = grow.library(run, final, tmp_path, "")
    assert grown is not None
    few, many, never = (kernel.facts.name for kernel in final.kernels)
    sizes = {stage: {size for own in ledger.times[stage].values() for size in own} for stage in TimingStage}
    assert len(sizes[TimingStage.HELD_OUT]) == 5
    assert len(sizes[TimingStage.REFINED]) == 6
    assert not sizes[TimingStage.HELD_OUT] & sizes[TimingStage.REFINED]
    assert not (sizes[TimingStage.HELD_OUT] | sizes[TimingStage.REFINED]) & set(final.sizes.all)
    assert never not in ledger.times[TimingStage.REFINED]  # slow at every size around
    assert set(ledger.times[TimingStage.HELD_OUT]) == {few, many}  # the library's own
    assert grown.facts.held_out is not None
    assert grown.facts.held_out.sizes == 5


def test_the_kernel_that_is_picked_at_a_held_out_size_gets_all_samples(tmp_path: Path, ledger: Ledger) -> None:
    run, final = prepared(tmp_path, ledger)
    grown = grow.library(run, final, tmp_path, "")
    assert grown is not None
    picker = dispatch.load(grown.folder)
    for task in run.bench.tasks[TimingStage.HELD_OUT]:  # type: ignore[attr-defined]
        assert task.kept == {picker.select(*task.size)}


def test_predicted_times_make_a_predicted_library(tmp_path: Path, ledger: Ledger) -> None:
    run, final = prepared(tmp_path, ledger)
    run.bench.kind = Kind.PREDICTED  # type: ignore[misc]
    grown = grow.library(run, final, tmp_path, "")
    assert grown is not None
    assert dispatch.load(grown.folder).library.times is TimesKind.PREDICTED


@pytest.mark.parametrize(("form", "text"), [("nested", "if (m"), ("table", "splits[]")])
def test_the_file_says_how_the_c_picks_a_kernel(tmp_path: Path, ledger: Ledger, form: str, text: str) -> None:
    run, final = prepared(tmp_path, ledger, library=f"library: {{name: made, selection: {form}}}")
    grown = grow.library(run, final, tmp_path, "")
    assert grown is not None
    assert text in (grown.folder / f"{grown.folder.name}.c").read_text()


def test_a_file_that_asks_for_no_library_gets_none(tmp_path: Path, ledger: Ledger) -> None:
    run, final = prepared(tmp_path, ledger, library="")
    assert grow.library(run, final, tmp_path, "") is None
    assert grow.grow(run, final) is None


def test_without_times_there_is_no_library(tmp_path: Path, ledger: Ledger) -> None:
    read = tuning(tmp_path, text=TEXT.format(library=LIBRARY))
    (group,) = read.groups
    run, _ = context(read, ledger, lambda name, size: None)
    final = final_of(read, group.type, [kernel(group)], frozenset())
    race(run, final)
    assert grow.library(run, final, tmp_path, "") is None
    assert not (tmp_path / "made_nn").exists()


def test_a_library_of_batches_picks_by_the_number_of_products(tmp_path: Path, ledger: Ledger) -> None:
    text = TEXT.format(library=LIBRARY)
    text = text[: text.index("      - range")].replace(
        "question",
        "problem: {NumIndicesC: 3, IndexAssignmentsA: [0, 3, 2], IndexAssignmentsB: [1, 3, 2]}\nquestion",
    )
    sizes = "      - range: [[64, 64, 256], [64, 64, 256], [1, 6, 31], 64]\n      - exact: [7, 7, 3, 4096]\n"
    read = tuning(tmp_path, text=text + sizes)
    (group,) = read.groups
    few, many = (kernel(group, thread_tile_0=tile) for tile in (2, 4))

    def ms(name: str, size: Size) -> float:
        return 1.0 if (name == few.facts.name) == (size[3] < 16) else 2.0

    run, _ = context(read, ledger, ms)
    final = final_of(read, group.type, [few, many], frozenset())
    race(run, final)
    grown = grow.library(run, final, tmp_path, "invented times")
    assert grown is not None
    assert grown.facts.loss.mean == 0
    picker = dispatch.load(grown.folder)
    assert picker.library.batched
    for size in final.sizes.all:
        m, n, k, batch = size
        assert picker.select(m, n, k, batch=batch) == (few if batch < 16 else many).facts.name
    assert {one.size for one in picker.library.measured} >= set(final.sizes.ranges)
    first = picker.library.kernels[0].launches[0]
    assert [name for name, _ in first.arguments if name in BATCH_SIZES] == ["batch", "stride_a", "stride_b", "stride_c"]


def test_exact_sizes_alone_make_a_library_without_held_out_sizes(tmp_path: Path, ledger: Ledger) -> None:
    text = TEXT.format(library=LIBRARY).replace("      - range: [[64, 64, 512], [64, 64, 512], 64]\n", "")
    read = tuning(tmp_path, text=text)
    (group,) = read.groups
    run, bench = context(read, ledger, lambda name, size: 1.0)
    final = final_of(read, group.type, [kernel(group)], frozenset())
    race(run, final)
    grown = grow.library(run, final, tmp_path, "")
    assert grown is not None
    assert grown.facts.held_out is None
    assert grown.facts.interpolated == 0
    assert set(bench.tasks) == {TimingStage.FINAL}


def choosy_library(
    folder: Path, ledger: Ledger, root: Path, own_ms: Callable[[Size], float]
) -> tuple[WrittenLibrary | None, FinalStep]:
    """The first kernel takes multiples of 128 rows alone; of the others one is faster below 300 rows, one above."""
    text = (root / "kernel_src" / "gemm" / "tensile.cu.j2").read_text()
    own = text.replace("requires:\n", "requires:\n  - {that: lda % 128 == 0, because: of the test}\n", 1)
    assert own != text
    (folder / "own.cu.j2").write_text(own)
    library = LIBRARY.replace("}", ", tolerance: 0.03}")
    more = TEXT.format(library=library).replace("groups:\n", "groups:\n  - {name: own, template: own.cu.j2,\n     "
        "BenchmarkFinalParameters: [{range: [[64, 64, 512], [64, 64, 512], 64]}]}\n")  # fmt: skip
    read = tuning(folder, text=more)
    choosy = kernel(read.groups[0], thread_tile_0=2)
    few, many = (kernel(read.groups[1], thread_tile_0=tile) for tile in (4, 8))

    def ms(name: str, size: Size) -> float | None:
        if name == choosy.facts.name:
            return own_ms(size)
        return 2.0 if (name == few.facts.name) == (size[0] < 300) else 3.0

    run, _ = context(read, ledger, ms)
    final = final_of(read, read.groups[0].type, [choosy, few, many], frozenset())
    race(run, final)
    return grow.library(run, final, folder, "invented times"), final


def test_where_a_kernel_cannot_take_a_size_the_best_of_the_others_is_picked(
    tmp_path: Path, ledger: Ledger, root: Path
) -> None:
    grown, final = choosy_library(tmp_path, ledger, root, lambda size: 1.0)
    choosy, few, many = final.kernels
    assert grown is not None
    picker = dispatch.load(grown.folder)
    for size in final.sizes.ranges:
        other = few if size[0] < 300 else many
        assert picker.select(*extents(size)[:3]) == (choosy if size[0] % 128 == 0 else other).facts.name
    assert picker.library.general is not None
    assert [kernel.requires for kernel in picker.library.kernels if kernel.requires] == ["((lda % 128) == 0)"]
    assert grown.facts.loss.mean == 0


def test_a_kernel_is_not_picked_where_it_is_slow_at_the_few_sizes_that_it_takes(
    tmp_path: Path, ledger: Ledger, root: Path
) -> None:
    # at 128 rows it wins by little, and over all sizes it loses less than either of the others
    grown, final = choosy_library(tmp_path, ledger, root, lambda size: 1.99 if size[0] == 128 else 2.2)
    choosy, *_ = final.kernels
    assert grown is not None
    picker = dispatch.load(grown.folder)
    slow = [size for size in final.sizes.ranges if size[0] in (256, 384, 512)]
    assert slow
    assert choosy.facts.name not in {picker.select(*extents(size)[:3]) for size in slow}


def test_a_library_of_kernels_that_all_require_something_is_refused(tmp_path: Path, ledger: Ledger, root: Path) -> None:
    text = (root / "kernel_src" / "gemm" / "tensile.cu.j2").read_text()
    own = text.replace("requires:\n", "requires:\n  - {that: lda % 64 == 0, because: of the test}\n", 1)
    (tmp_path / "own.cu.j2").write_text(own)
    read = tuning(tmp_path, text=TEXT.format(library=LIBRARY).replace("gemm/tensile.cu.j2", "own.cu.j2"))
    one = kernel(read.groups[0])
    run, _ = context(read, ledger, lambda name, size: 1.0)
    final = final_of(read, read.groups[0].type, [one], frozenset())
    race(run, final)
    with pytest.raises(UserError, check=coded("nothing-left", key="groups", found=["own.cu.j2"])):
        grow.library(run, final, tmp_path, "")

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from library_support import TILES, invented_grid, invented_ms

from lab.base.expressions import Scalar
from lab.base.sizes import AXES, BATCH_AXES, Size
from lab.library import interpolation, specialise
from lab.library.alignment import Alignment
from lab.library.batch_expressions import blocks
from lab.library.grid import Grid
from lab.library.interpolation import LEAST_TIMES, Stair, fill, waves
from lab.library.tree import build, evaluate
from lab.operators.gemm import GemmProblem
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

SMS = 132
NAMES = {f"tile_{a}x{b}": (a, b) for a, b in TILES}
ALONG = tuple(range(16, 5632, 208))


def stair(tile):
    return Stair(lambda sizes: -(-sizes[:, 0] // tile[0]) * -(-sizes[:, 1] // tile[1]), 1)


STAIRS = {name: stair(tile) for name, tile in NAMES.items()}


def invented_sizes(count, seed, *, whole):
    """Random ones within the grid's box."""
    rng = np.random.default_rng(seed)
    drawn = np.exp(rng.uniform(np.log(16), np.log(5424), size=(count, 2))).astype(int)
    return tuple(dict.fromkeys((int(m) // whole * whole, int(n) // whole * whole, 3104) for m, n in drawn))


def invented_times(sizes, slower=()):
    """Kernels named in `slower` take twice as long where 4 does not divide m."""
    return Grid.of(
        {
            size: {
                name: invented_ms(tile, size) * (2 if name in slower and size[0] % 4 else 1)
                for name, tile in NAMES.items()
            }
            for size in sizes
        }
    )


@pytest.mark.parametrize(
    ("count", "at_once", "expected"),
    [(1, 1, [1]), (132, 1, [1]), (133, 1, [2]), (132, 2, [1, 0]), (133, 2, [1, 1]), (264, 2, [1, 1]), (265, 2, [2, 1])],
)
def test_waves_of_known_numbers_of_blocks(count, at_once, expected):
    assert waves(np.array([count]), at_once, SMS).tolist() == [expected]


def test_thresholds_stand_where_times_step():
    measured, between = invented_grid(ALONG, depths=(3104,)), invented_times(invented_sizes(400, 1, whole=1))
    filled = fill(measured, STAIRS, SMS)
    assert filled is not None
    alone = evaluate(build(measured), between)
    with_stairs = evaluate(build(filled.grid, edges=filled.edges), between)
    assert with_stairs.mean < 0.005
    assert alone.mean > 5 * with_stairs.mean


def test_measured_times_stay_as_they_are():
    measured = invented_grid(ALONG[::3], depths=(64, 3104))
    filled = fill(measured, STAIRS, SMS)
    assert filled is not None
    assert filled.grid.sizes[: len(measured.sizes)] == measured.sizes
    columns = [measured.kernels.index(name) for name in filled.grid.kernels]
    for row, before in zip(filled.grid.times, measured.times, strict=False):
        assert row == tuple(before[i] for i in columns)
    assert all(size[axis] <= filled.edges[axis][-1] for size in filled.grid.sizes for axis in range(3))


def test_a_kernel_that_is_slow_where_4_does_not_divide_m_is_avoided_there():
    slower = ("tile_128x128", "tile_256x128", "tile_64x32")
    sizes = [*itertools.product(ALONG, ALONG, (3104,)), *invented_sizes(150, 2, whole=1)]
    filled = fill(invented_times(dict.fromkeys(sizes), slower), STAIRS, SMS)
    assert filled is not None
    logic = build(filled.grid, edges=filled.edges)
    for whole in (1, 4):
        assert evaluate(logic, invented_times(invented_sizes(200, 3, whole=whole), slower)).mean < 0.02
    assert logic.kernels[logic.select(5000, 5000, 3104)] != logic.kernels[logic.select(5001, 5000, 3104)]


def test_where_a_kernel_was_not_tried_it_is_not_picked():
    """`tile_16x16` would be taken for the fastest everywhere; it was measured at the small sizes alone."""
    times = {
        size: dict(zip(invented.kernels, row, strict=True))
        for invented in [invented_grid(ALONG, depths=(3104,))]
        for size, row in zip(invented.sizes, invented.times, strict=True)
    }
    for size, row in times.items():
        row["tile_16x16"] = 1e-6
        if size[0] > 2000:
            del row["tile_16x16"]
    filled = fill(Grid.of(times), STAIRS, SMS)
    assert filled is not None
    logic = build(filled.grid, edges=filled.edges)
    assert logic.kernels[logic.select(500, 1000, 3104)] == "tile_16x16"
    assert logic.kernels[logic.select(5000, 1000, 3104)] != "tile_16x16"


def test_clusters_that_leave_sms_idle_are_seen():
    """Clusters of 6 fill 108 of 132 SMs: their stair is narrower, and thresholds stand where it steps."""

    def ms(size, sms):
        blocks = -(-size[0] // 64) * -(-size[1] // 64) * 6
        return 1e-3 + -(-blocks // sms) * 2e-2

    def grid(sizes):
        return Grid.of({size: {"clusters": ms(size, 108), "other": 0.9 * ms(size, 132) + 4e-3} for size in sizes})

    def narrow(cluster):
        blocks = lambda sizes: -(-sizes[:, 0] // 64) * -(-sizes[:, 1] // 64) * 6  # noqa: E731 - of this test alone
        return {"clusters": Stair(blocks, 1, cluster), "other": Stair(blocks, 1)}

    sizes = invented_sizes(300, 6, whole=4)
    between = grid(invented_sizes(300, 7, whole=4))
    losses = []
    for cluster in (6, 1):
        filled = fill(grid(sizes), narrow(cluster), SMS)
        assert filled is not None
        losses.append(evaluate(build(filled.grid, edges=filled.edges), between).mean)
    assert losses[0] < losses[1] / 2


def test_the_step_from_warm_to_cold_is_no_kernels_own():
    def grid(sizes):
        return Grid.of(
            {
                size: {name: invented_ms(tile, size) + 0.05 * (size in cold) for name, tile in NAMES.items()}
                for size in sizes
            }
        )

    measured, others = invented_sizes(300, 8, whole=1), invented_sizes(300, 9, whole=1)
    cold = {size for size in (*measured, *others) if size[0] * size[1] > 1 << 18}
    losses = []
    for told in (cold, set()):
        filled = fill(grid(measured), STAIRS, SMS, told)
        assert filled is not None
        losses.append(evaluate(build(filled.grid, edges=filled.edges), grid(others)).mean)
    assert losses[0] < losses[1]


def test_far_from_all_measured_sizes_a_kernel_is_taken_to_be_slower(monkeypatch):
    """The more its times scatter and the farther the size, the less its fit is believed."""
    sizes = np.array([(m, n, 512) for m in range(256, 1280, 128) for n in (256, 512)])
    cold = np.zeros(len(sizes), dtype=np.bool_)
    scatter = np.exp(np.random.default_rng(3).normal(0, 0.2, len(sizes)))
    times = (1e-3 + 1e-8 * sizes.prod(axis=1) / 512) * scatter
    fit = interpolation._fit(interpolation._Points(sizes, cold), times, STAIRS["tile_128x128"], SMS)
    places = np.array([(1152, 512, 512), (4096, 4096, 512), (16384, 16384, 512)])
    queried, usual = interpolation._Points(places, np.zeros(3, dtype=np.bool_)), np.zeros(8)
    doubted = fit.at(queried, usual)
    monkeypatch.setattr(interpolation, "_DOUBT", 0.0)
    ratio = doubted / fit.at(queried, usual)
    assert ratio[0] == pytest.approx(1)
    assert 1 < ratio[1] < ratio[2] < np.exp(0.5 * np.std(fit.rest))


def test_too_few_times_tell_nothing():
    few = invented_times(invented_sizes(LEAST_TIMES - 1, 4, whole=1))
    assert fill(few, STAIRS, SMS) is None
    assert fill(invented_grid(ALONG, depths=(3104,)), {}, SMS) is None


GEMM: list[tuple[str, dict[str, Scalar]]] = [
    ("gemm/sgemm.cu.j2", {"split_k": 3, "block_k": 16}),
    ("gemm/sgemm.cu.j2", {"workers": 264}),
    ("gemm/sgemm.cu.j2", {"pack": "both", "block_m": 128, "thread_n": 8}),
    ("gemm/tensile.cu.j2", {"global_split_u": 4}),
    ("gemm/tensile.cu.j2", {"global_split_u": 8, "global_split_u_algorithm": "workspace"}),
]


@pytest.mark.parametrize("layout", ["nt", "tn"])
@pytest.mark.parametrize(
    ("name", "given", "axes"),
    [*((*one, AXES) for one in GEMM), *((*one, BATCH_AXES) for one in GEMM if "tensile" in one[0])],
)
def test_blocks_are_those_of_the_launch_that_multiplies(name, given, axes, layout):
    template = kernels.load(name, kernels.search_path())
    parameters = template.completed(given)
    library_kernel = specialise.kernel(
        "k",
        cubin="k.cubin",
        template=template,
        parameters=parameters,
        dtype="float32",
        layout=layout,
        batched=axes == BATCH_AXES,
    )
    rng = np.random.default_rng(5)
    sizes = np.exp(rng.uniform(0, np.log(9000 if axes == AXES else 500), size=(30, len(axes)))).astype(np.int64)
    for size, block_count in zip(sizes.tolist(), blocks(library_kernel, layout, sizes).tolist(), strict=True):
        problem = {**dict(zip(axes, size, strict=True)), "dtype": "float32", "layout": layout, "beta": 1.0}
        steps = Instance(template, parameters, GemmProblem.of(problem)).launches.steps
        multiply = [step for step in steps if step.main] or steps
        assert block_count == max(int(np.prod(step.grid)) for step in multiply), size


@given(st.integers(1, 8), st.lists(st.integers(1, 10**7), min_size=1, max_size=5))
def test_waves_hold_every_block(at_once, counts):
    ran = waves(np.array(counts), at_once, SMS)
    for count, row in zip(counts, ran, strict=True):
        assert row.sum() == -(-count // SMS) if count % (SMS * at_once) else row.sum() == count / SMS
        assert all(a >= b for a, b in itertools.pairwise(row))


def points(*sizes, cold=()):
    return interpolation._Points(np.array(sizes, dtype=np.int64), np.array([s in cold for s in sizes], dtype=np.bool_))


def test_features_of_a_size():
    """A constant and three matrices, the same where caches are cold, then waves and waves times k."""
    measured = points((1024, 512, 256), (1024, 512, 256), cold=())
    measured = interpolation._Points(measured.sizes, np.array([False, True]))
    warm, cold = interpolation._features(measured, np.array([265, 265]), None, 2, SMS).tolist()
    shapes = [1.0, 0.5, 0.25, 0.125]
    assert warm == [*shapes, 0, 0, 0, 0, 2, 1, 0.5, 0.25]
    assert cold == [*shapes, *shapes, 2, 1, 0.5, 0.25]


def test_classes_are_which_dimensions_4_divides():
    measured = points((1, 1, 1), (4, 1, 1), (1, 4, 1), (4, 4, 1), (1, 1, 4), (4, 1, 4), (1, 4, 4), (8, 12, 16))
    assert measured.classes.tolist() == list(range(8))
    halves = interpolation._Points(measured.sizes, measured.cold, Alignment.of("bfloat16", "nn"))
    assert halves.classes.tolist() == [2, 2, 2, 2, 2, 2, 2, 7]  # n decides nothing


def test_launches_beside_the_product_are_told_from_it():
    """The cost of packing kernels follows the bytes they pack, and does not scale the GEMM's own time."""

    def packing(sizes):
        narrow = sizes[:, 0] % 4 != 0
        return np.column_stack([narrow, narrow * sizes[:, 0] * sizes[:, 2] / 2**20])

    def ms(size, *, packs):
        count, threads = packing(np.array([size]))[0]
        return invented_ms((64, 64), size) + packs * (0.002 * count + 0.02 * threads)

    def times(sizes):
        return np.array([ms(size, packs=True) for size in sizes])

    rng = np.random.default_rng(5)
    drawn = [tuple(map(int, size)) for size in np.exp(rng.uniform(np.log(16), np.log(4000), (160, 3)))]
    measured_sizes = [(m // 4 * 4, n, k) if i % 2 else (m // 4 * 4 + 1, n, k) for i, (m, n, k) in enumerate(drawn)]
    told, held_out = measured_sizes[:120], measured_sizes[120:]
    plain = stair((64, 64))
    errors = []
    for stair_form in (plain, replace(plain, others=packing)):
        fit = interpolation._fit(points(*told), times(told), stair_form, SMS)
        errors.append(np.abs(np.log(fit.at(points(*held_out), np.zeros(8)) / times(held_out))))
    assert np.max(errors[1]) < 0.02 < np.median(errors[0])


def test_the_usual_factor_is_a_high_one_of_those_that_are_known():
    rows = [np.array([np.nan, 0.0, 1.0]), np.array([np.nan, 1.0, np.nan]), np.array([np.nan, 0.5, 3.0])]
    padded = [np.concatenate([row, np.full(5, np.nan)]) for row in rows]
    assert interpolation._usual(padded) == pytest.approx([0, 0.84, 2.68, 0, 0, 0, 0, 0])


def test_steps_and_cells():
    assert interpolation._steps(16, 1) == (16,)
    assert interpolation._steps(17, 1) == (16, 32)
    assert interpolation._steps(512, 1) == (*range(16, 513, 16),)
    assert interpolation._steps(513, 1) == interpolation._steps(576, 1) == (*range(16, 513, 16), 576)
    assert interpolation._steps(577, 1) == (*range(16, 513, 16), 576, 640)
    assert interpolation._steps(600, 2) == (*range(32, 609, 32),)
    assert interpolation._halves(np.array([8, 32, 8, 128])) == (8, 16, 32, 64, 128)
    assert interpolation._halves(np.array([5])) == (5,)
    m, n, k = interpolation._edges(np.array([(40, 16, 7), (16, 100, 28)]))
    assert (m, n, k) == ((16, 32, 48), (*range(16, 113, 16),), (7, 14, 28))


def test_cells_are_coarser_where_there_would_be_too_many(monkeypatch):
    sizes = np.array([(160, 160, 8)])
    usual = interpolation._edges(sizes)
    monkeypatch.setattr(interpolation, "_MOST_CELLS", len(usual[0]) * len(usual[1]))
    assert interpolation._edges(sizes) == usual
    monkeypatch.setattr(interpolation, "_MOST_CELLS", len(usual[0]) * len(usual[1]) - 1)
    assert interpolation._edges(sizes)[0] == interpolation._steps(160, 2)


def test_thresholds_between_random_sizes_are_even_in_the_logarithms():
    sizes = np.array([(i, 5 * i, 7 * i) for i in range(1, 201)])
    m, n, k = interpolation._edges(sizes)
    assert m[:12] == n[:12] == (1, 2, 4, 8, *range(16, 129, 16))
    assert m[12:] == (144, 160, 176, 192, 208, 224)
    assert n[-1] == 1024
    assert all(edge % 16 == 0 for edge in (*m[4:], *n[4:]))
    assert list(n) == sorted(set(n))
    assert k[:8] == (1, 2, 3, 4, 5, 6, 7, 8)
    assert k[-5:] == (724, 861, 1024, 1218, 1448)
    few = sizes[: interpolation._MOST_DEPTHS]
    assert interpolation._edges(few)[2] == interpolation._halves(few[:, 2])


def test_sizes_between_random_ones_are_further_ones_of_the_same_kind(monkeypatch):
    monkeypatch.setattr(interpolation, "_DRAWN", 4000)
    rng = np.random.default_rng(3)
    measured_sizes = np.exp(rng.uniform(np.log(4), np.log(4000), (400, 3))).astype(np.int64)
    measured_sizes[:, 1] = np.maximum(measured_sizes[:, 1] // 4 * 4, 4)
    between = interpolation._between(interpolation._edges(measured_sizes), points(*measured_sizes))
    assert len(between) > 3900
    taken = set(map(tuple, measured_sizes.tolist()))
    assert taken.isdisjoint(map(tuple, between.tolist()))
    assert (between >= measured_sizes.min(axis=0)).all()
    assert (between <= measured_sizes.max(axis=0)).all()
    assert (between[:, 1] % 4 == 0).all()
    # many small ones are multiples by chance; among the larger a quarter is
    assert (between % 4 == 0).mean(axis=0) == pytest.approx((measured_sizes % 4 == 0).mean(axis=0), abs=0.3)
    assert np.median(between, axis=0) == pytest.approx(np.median(measured_sizes, axis=0), rel=0.25)


def random_times(count, seed, scatter):
    """Kernels whose times do not follow their stairs: each has its own efficiency for each region of the sizes."""
    rng = np.random.default_rng(seed)
    drawn = np.exp(rng.uniform(np.log(16), np.log(8192), (count, 3))).astype(int)
    sizes = tuple(dict.fromkeys((int(m), int(n), int(k)) for m, n, k in drawn))

    def own(tile, size):
        return 1 + scatter * np.sin(tile[0] + np.log2(size[0])) * np.sin(tile[1] + 0.7 * np.log2(size[2]))

    return Grid.of(
        {size: {name: invented_ms(tile, size) * own(tile, size) for name, tile in NAMES.items()} for size in sizes}
    )


def test_what_kernels_lose_nearby_counts_where_stairs_err():
    measured, between = random_times(150, 1, 0.6), random_times(300, 2, 0.6)
    filled = fill(measured, STAIRS, SMS)
    mixed = evaluate(build(filled.grid, edges=filled.edges), between)
    fitting = fitting_of(measured)
    share = interpolation._share(fitting)
    assert share > 0
    at = points(*between.sizes)
    lost = []
    for weight in (0.0, share):
        guessed = interpolation._mixed(fitting.stairs_at(at), fitting.losses_at(at), weight)
        picked = guessed.argmin(axis=1)
        times = np.array(between.times)
        lost.append((times[np.arange(len(times)), picked] / times.min(axis=1)).mean() - 1)
    assert lost[1] < 0.85 * lost[0]
    assert mixed.mean < lost[0]


def fitting_of(grid):
    measured = points(*grid.sizes)
    return interpolation._Fitting(np.array(grid.times), tuple(STAIRS[name] for name in grid.kernels), measured, SMS)


def test_exact_stairs_are_not_blurred():
    assert interpolation._share(fitting_of(invented_grid(ALONG[::2], depths=(3104,)))) == 0


def test_losses_follow_the_sizes_around_and_absent_kernels_lose_much():
    sizes = [(64 * 2**i, 64 * 2**j, 64) for i in range(8) for j in range(8)]
    slower = np.array([0.05 * np.log2(m * n) for m, n, _ in sizes])  # a loss that grows with the logarithms
    times = np.column_stack([np.ones(64), np.exp(slower)])
    names = list(NAMES)[:2]

    def losses(*at):
        fitting = interpolation._Fitting(times, tuple(STAIRS[name] for name in names), points(*sizes), SMS)
        return fitting.losses_at(points(*at))

    size_losses = losses((1000, 700, 64), (64, 64, 64))
    assert size_losses[:, 0] == pytest.approx(0)
    assert size_losses[:, 1] == pytest.approx([0.05 * np.log2(700_000), 0.6], abs=0.03)
    times[:8, 1] = np.nan  # where m is 64
    before, after = size_losses[1, 1], losses((64, 64, 64))[0, 1]
    assert after == pytest.approx(interpolation._ABSENT, abs=0.1)
    times[:, 1] = np.where(np.arange(64) < 8, np.nan, 1.0)
    assert losses((64, 64, 64))[0, 1] > 0.3 > losses((8192, 64, 64))[0, 1]
    assert before == pytest.approx(0.6, abs=0.03)


def test_sizes_that_4_divides_alike_weigh_more():
    sizes = [(16 * i + (i % 2), 64, 64) for i in range(4, 30)]
    times = np.column_stack([np.ones(26), np.where(np.arange(26) % 2, 2.0, 1.0)])
    fitting = interpolation._Fitting(times, tuple(STAIRS[name] for name in list(NAMES)[:2]), points(*sizes), SMS)
    even, odd = fitting.losses_at(points((200, 64, 64), (201, 64, 64)))[:, 1]
    assert odd - even > 0.05


def test_a_mean_of_stairs_and_losses_is_one_of_logarithms():
    stairs, losses = np.array([[1.0, 4.0], [np.nan, 2.0]]), np.array([[0.0, np.log(2.0)], [0.0, np.log(3.0)]])
    mixed = interpolation._mixed(stairs, losses, 0.5)
    assert mixed[0] == pytest.approx([1.0, 8**0.5])
    assert np.isnan(mixed[1, 0])
    assert mixed[1, 1] == pytest.approx(2 * 3**0.5)
    assert interpolation._mixed(stairs, losses, 0.0)[0] == pytest.approx(stairs[0])


def test_sizes_between_are_the_ends_of_cells_and_one_less():
    edges = ((16, 32), (16,), (8,))
    measured = points((16, 16, 8), (4, 5, 8))
    assert interpolation._between(edges, measured).tolist() == [[16, 15, 8], [32, 15, 8], [32, 16, 8]]
    assert interpolation._between(edges, points((3, 5, 8))).tolist() == [[15, 15, 8], [31, 15, 8]]
    assert interpolation._between(((4,), (4,), (4,)), points((4, 4, 4))).shape == (0, 3)


def test_most_measured_sizes_around_decide_whether_a_time_is_cold():
    measured = points(*((16 * i, 16, 16) for i in range(1, 7)), cold=((16, 16, 16), (32, 16, 16), (48, 16, 16)))
    queried = np.array([(16, 16, 16), (96, 16, 16)])
    assert interpolation._alike(measured, queried).cold.tolist() == [True, False]
    assert len(interpolation._alike(measured, queried[:0])) == 0


def test_a_fit_is_its_features_its_factor_and_the_rest_of_its_neighbours():
    """The same by a loop over all measured sizes, which sorts them by distance."""
    rng = np.random.default_rng(21)
    sizes = [(int(m), int(n), int(k)) for m, n, k in 4 * rng.integers(4, 300, (40, 3))]
    sizes += [(m + 1, n, k) for m, n, k in sizes[:9]]
    measured = points(*sizes, cold=set(sizes[::3]))
    stair_ = STAIRS["tile_64x32"]
    ran = stair_.blocks(measured.sizes)
    times = (1e-3 + 1e-4 * -(-ran // SMS)) * np.exp(rng.normal(0, 0.1, len(sizes)))
    times[5] = np.nan
    fit = interpolation._fit(measured, times, stair_, SMS)
    assert fit.factors[7] == 0
    assert np.isnan(fit.factors[:6]).all()
    assert fit.factors[6] != 0  # nine sizes whose m 4 does not divide
    there = np.isfinite(times)
    explained = interpolation._features(measured, ran, None, 1, SMS)[there] @ fit.weights
    factors = np.nan_to_num(fit.factors)[measured.classes[there]]
    assert fit.rest == pytest.approx(np.log(times[there] / explained) - factors, abs=1e-12)
    assert np.std(fit.rest) < 0.2  # as the times scatter
    queried, usual = points((500, 333, 128), (77, 64, 1024), cold={(77, 64, 1024)}), np.arange(8) / 10

    def place(size, blocks, cold):
        return [*np.log2(size), *(1.0 * (x % 4 == 0) for x in size), 4 * np.log2(blocks),
                4 * np.log2(-(-blocks // SMS)), 2.0 * cold]  # fmt: skip

    there = [place(*one) for one in zip(fit.known.sizes.tolist(), fit.blocks.tolist(), fit.known.cold, strict=True)]
    expected = []
    for size, cold in zip(queried.sizes.tolist(), queried.cold.tolist(), strict=True):
        point = points(tuple(size), cold={tuple(size)} if cold else ())
        blocks_ = int(stair_.blocks(point.sizes)[0])
        own = fit.factors[point.classes[0]]
        log = np.log(interpolation._features(point, np.array([blocks_]), None, 1, SMS)[0] @ fit.weights)
        log += usual[point.classes[0]] if np.isnan(own) else own
        far = sorted(
            (float(np.linalg.norm(np.subtract(place(size, blocks_, cold), p))), i) for i, p in enumerate(there)
        )
        near = far[:10]
        weights = [1 / (d + 0.05) for d, _ in near]
        log += sum(w * fit.rest[i] for w, (_, i) in zip(weights, near, strict=True)) / sum(weights)
        log += 0.5 * float(np.std(fit.rest)) * near[0][0] / (near[0][0] + 1)
        expected.append(np.exp(log))
    assert fit.at(queried, usual) == pytest.approx(expected, rel=1e-9)
    assert fit.at(queried.some(np.array([False, False])), usual).shape == (0,)


def test_three_times_make_a_factor_and_two_do_not():
    sizes = [(4 * m, 4, 4) for m in range(1, 15)]
    for extra, has_factor in ((3, True), (2, False)):
        odd = [(4 * m + 1, 4, 4) for m in range(1, 1 + extra)]
        times = np.array([1.0] * len(sizes) + [2.0] * extra)
        fit = interpolation._fit(points(*sizes, *odd), times, Stair(lambda s: np.ones(len(s), np.int64), 1), SMS)
        assert fit.factors[6] == pytest.approx(np.log(2), abs=1e-6) if has_factor else np.isnan(fit.factors[6])


def test_a_kernel_with_few_times_where_4_divides_is_fitted_to_all():
    odd = [(4 * m + 1, 5, 3) for m in range(1, 15)]
    even = [(4 * m, 4, 4) for m in range(1, LEAST_TIMES)]
    fit = interpolation._fit(
        points(*odd, *even), np.array([2.0] * 14 + [1.0] * 11), Stair(lambda s: np.ones(len(s), np.int64), 1), SMS
    )
    assert np.isnan(fit.factors[:7]).all()
    enough = [*even, (400, 4, 4)]
    again = interpolation._fit(
        points(*odd, *enough), np.array([2.0] * 14 + [1.0] * 12), Stair(lambda s: np.ones(len(s), np.int64), 1), SMS
    )
    assert again.factors[0] == pytest.approx(np.log(2), abs=1e-6)


def test_clusters_are_tried_on_fewer_sms():
    sm_counts = []

    def blocks_of(sizes):
        return sizes[:, 0]

    sizes = [(m, 4, 4) for m in range(4, 900, 16)]
    for cluster, filled in ((6, 108), (1, 132)):
        times = np.array([1e-3 + -(-m // filled) * 1e-2 for m, _, _ in sizes])
        sm_counts.append(interpolation._fit(points(*sizes), times, Stair(blocks_of, 1, cluster), SMS).sms)
    assert sm_counts == [108, 132]


def test_between_random_sizes_a_kernel_that_was_timed_far_away_alone_is_not_picked():
    rng = np.random.default_rng(8)
    drawn = np.exp(rng.uniform(np.log(8), np.log(8192), (200, 3))).astype(int)
    times: dict[Size, dict[str, float]] = {}
    for m, n, k in drawn.tolist():
        times[m, n, k] = {name: invented_ms(tile, (m, n, k)) for name, tile in NAMES.items()}
        if min(m, n) < 512:
            del times[m, n, k]["tile_256x128"]
    fitting = fitting_of(Grid.of(times))
    near = fitting.stairs_at(points((100, 500, 300), (4096, 4096, 500)))
    number = list(NAMES).index("tile_256x128")
    assert np.isnan(near[0, number])
    assert np.isfinite(near[1, number])


def test_the_fastest_time_around_is_expected_and_no_stair_promises_much_less(monkeypatch):
    sizes = [(64 * 2**i, 64 * 2**j, 64 * 2**k) for i in range(5) for j in range(5) for k in range(4)]
    times = np.array([[2e-9 * m * n * k, 4e-9 * m * n * k] for m, n, k in sizes])
    fitting = interpolation._Fitting(times, (STAIRS["tile_128x128"],) * 2, points(*sizes), SMS)
    at = points((300, 300, 300), (2000, 100, 70))
    fastest = fitting.fastest_at(at)
    assert fastest == pytest.approx(2e-9 * at.sizes.prod(axis=1), rel=0.1)
    monkeypatch.setattr(interpolation._Fit, "at", lambda _fit, points_, _usual: np.array([1e-9, 1.0])[: len(points_)])
    stairs = fitting.stairs_at(at)
    assert stairs[0] == pytest.approx(interpolation._LEAST_OF_FASTEST * fastest[0])
    assert stairs[1] == pytest.approx(1.0)


def batch_blocks(tile, sizes):
    m, n, _, batch = sizes.T
    return -(-m // tile[0]) * -(-n // tile[1]) * batch


def batch_ms(tile, size):
    """Waves of the tiles of all products."""
    ran = -(-int(batch_blocks(tile, np.array(size))) // SMS)
    return 1e-3 + ran * size[2] * (tile[0] * tile[1] + 40 * (tile[0] + tile[1])) * 1e-8


@pytest.mark.parametrize("scattered", [False, True])
def test_times_of_batches_are_interpolated_over_four_dimensions(scattered):
    def drawn(count, seed, most):
        rng = np.random.default_rng(seed)
        sizes = np.exp(rng.uniform(np.log([16, 16, 16, 1]), np.log(most), size=(count, 4))).astype(int)
        return tuple(dict.fromkeys(tuple(size) for size in sizes.tolist()))

    most = [600, 600, 600, 300]
    grid = tuple(itertools.product((16, 96, 272, 592), (16, 96, 272, 592), (64,), (1, 4, 16, 64, 256)))
    measured = drawn(160, 1, most) if scattered else grid
    held_out = drawn(100, 2, most) if scattered else tuple((m, n, 64, batch) for m, n, _, batch in drawn(100, 2, most))

    def times(sizes):
        return Grid.of({size: {name: batch_ms(tile, size) for name, tile in NAMES.items()} for size in sizes})

    stairs = {name: Stair(partial(batch_blocks, tile), 1) for name, tile in NAMES.items()}
    measured_grid = times(measured)
    filled = fill(measured_grid, stairs, SMS)
    assert filled is not None
    assert filled.grid.sizes[: len(measured)] == measured_grid.sizes
    assert len(filled.edges) == 4
    assert {size[3] for size in filled.grid.sizes} > {size[3] for size in measured}
    logic = build(filled.grid, edges=filled.edges)
    assert (
        evaluate(logic, times(held_out)).mean
        < 0.25 * evaluate(build(measured_grid, most_leaves=1), times(held_out)).mean
    )

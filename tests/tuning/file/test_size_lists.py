from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mistakes import coded

from lab.base import yamlfile
from lab.base.errors import UserError
from lab.base.sizes import AXES, BATCH_AXES
from lab.store.tuning_model import ProblemType
from lab.tuning.file.size_lists import along, drawn, from_csv, read
from lab.tuning.file.tuning_schema import RandomModel, SizesModel


def of(layout, *, batched=False):
    return ProblemType("float32", layout, batched=batched)


def sizes(text, layout="nn", file="f.yaml", *, batched=False):
    document = yamlfile.parse(text, file)
    return read(
        [SizesModel.model_validate(one) for one in document.data["sizes"]],
        of(layout, batched=batched),
        document,
        ("sizes",),
    )


def test_the_stride_of_a_range_grows_by_its_increment():
    values = along([16, 16, 16, 5632])
    assert len(values) == 27
    assert values[:8] == (16, 32, 64, 112, 176, 256, 352, 464)
    assert values[-1] == 5632


@pytest.mark.parametrize(
    ("given", "values"),
    [(7, (7,)), ([7], (7,)), ([2, 3, 9], (2, 5, 8)), ([2, 3, 0, 9], (2, 5, 8)), ([4, 1, 1, 4], (4,))],
)
def test_shorter_forms(given, values):
    assert along(given) == values


@pytest.mark.parametrize("given", [0, [], [1, 2], [1, 0, 5], [5, 1, 4], [1, 1, -1, 9], [1, 2, 3, 4, 5], [1, 1, 2**31]])
def test_what_is_no_range(given):
    with pytest.raises(UserError, match="range"):
        along(given)


def test_ranges_and_exact_sizes_are_told_apart():
    found = sizes("sizes: [{range: [[8, 8, 16], 4, [1]]}, {exact: [9, 9, 9]}, {exact: [8, 4, 1]}]")
    assert found.ranges == ((8, 4, 1), (16, 4, 1))
    assert found.exact == ((9, 9, 9), (8, 4, 1))
    assert found.all == ((8, 4, 1), (16, 4, 1), (9, 9, 9))


def test_random_sizes_stand_for_those_between_them():
    found = sizes("sizes: [{range: [[8, 8, 16], 4, [1]]}, {random: {count: 30, high: [16, 4, 9], seed: 5}}]")
    assert found.exact == ()
    assert found.scattered < set(found.ranges)
    assert found.scattered.isdisjoint({(8, 4, 1), (16, 4, 1)})
    assert len(found.scattered) in {28, 29, 30}


def box(**given):
    return RandomModel.model_validate(given)


@given(
    st.integers(1, 60),
    st.tuples(*(st.integers(1, 100),) * 3),
    st.tuples(*(st.integers(0, 20_000),) * 3),
    st.floats(0, 1),
)
def test_random_sizes_lie_in_their_box_each_once(count, low, more, aligned):
    high = [a + b for a, b in zip(low, more, strict=True)]
    model = box(count=count, low=list(low), high=high, aligned=aligned, seed=1)
    found = drawn(model, AXES)
    assert found == drawn(model, AXES)
    assert len(set(found)) == len(found) <= count
    assert all(a <= x <= b for size in found for a, x, b in zip(low, size, high, strict=True))


def test_random_sizes_are_even_in_their_logarithms_and_aligned_as_asked():
    found = np.array(drawn(box(count=4000, high=16384, aligned=0.5), AXES))
    assert np.median(found, axis=0) == pytest.approx([128] * 3, rel=0.2)
    large = found[found > 64]
    assert (large % 4 == 0).mean() == pytest.approx(0.5 + 0.5 / 4, abs=0.03)
    assert (np.array(drawn(box(count=400, low=8, high=99, aligned=1.0), AXES)) % 4 == 0).all()
    assert drawn(box(count=9, high=[1, 2, 1], aligned=0), AXES) in {((1, 1, 1), (1, 2, 1)), ((1, 2, 1), (1, 1, 1))}


@pytest.mark.parametrize(("low", "high"), [(5, 4), ([1, 9, 1], 8), (0, 4), (1, 2**31)])
def test_a_box_without_sizes_is_refused(low, high):
    with pytest.raises(UserError, check=coded("nothing-left")):
        drawn(box(count=3, low=low, high=high), AXES)


def test_a_csv_file_gives_the_sizes_of_the_layout(tmp_path):
    (tmp_path / "s.csv").write_text("m,n,k,a_t,b_t,set\n1,2,3,0,0,x\n4,5,6,1,0,x\n1,2,3,0,0,y\n7,8,9,0,1,y\n")
    text = "sizes: [{csv: s.csv}]"
    assert sizes(text, "nn", tmp_path / "f.yaml").exact == ((1, 2, 3),)
    assert sizes(text, "tn", tmp_path / "f.yaml").exact == ((4, 5, 6),)
    assert sizes(text, "nt", tmp_path / "f.yaml").exact == ((7, 8, 9),)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("m,n,k\n1,2,3\n", "lacks a column"), ("m,n,k,a_t,b_t\n1,x,3,0,0\n", r"s\.csv:2: this row is not a size")],
)
def test_a_csv_file_that_is_wrong(tmp_path, content, reason):
    (tmp_path / "s.csv").write_text(content)
    with pytest.raises(UserError, match=reason):
        from_csv(tmp_path / "s.csv", of("nn"))


@pytest.mark.parametrize(
    "text", ["sizes: [{}]", "sizes: [{exact: [1, 1, 1], csv: s.csv}]", "sizes:\n- exact: [1, 0, 1]"]
)
def test_errors_name_file_line_and_key(text):
    with pytest.raises(UserError, match=r"f\.yaml:\d") as raised:
        sizes(text)
    assert raised.value.key == "sizes[0]"


def test_a_range_of_too_many_sizes_is_refused_before_it_is_made():
    with pytest.raises(UserError, check=coded("out-of-range", key="sizes[0]", line=1)):
        sizes("sizes: [{range: [[1, 1, 99999], [1, 1, 99999], [1, 1, 99999]]}]")


def test_deepbench_is_all_there():
    file = Path(__file__).parents[3] / "experiments" / "deepbench_gemm.csv"
    counts = {layout: len(from_csv(file, of(layout))) for layout in ("nn", "tn", "nt", "tt")}
    assert counts == {"nn": 160, "tn": 73, "nt": 10, "tt": 0}
    assert sum(1 for _ in file.open()) == 249
    assert any(
        k == 500000 and n <= 2
        for _, n, k in from_csv(file, of("nn")) + from_csv(file, of("tn")) + from_csv(file, of("nt"))
    )


@pytest.mark.parametrize("name", ["/etc/hostname", "../outside.csv", "link.csv"])
def test_a_csv_file_elsewhere_is_not_read(tmp_path, name):
    folder = tmp_path / "own"
    folder.mkdir()
    (tmp_path / "outside.csv").write_text("secret\n")
    (folder / "link.csv").symlink_to(tmp_path / "outside.csv")
    with pytest.raises(UserError, check=coded("refused", key="sizes[1].csv", line=3)) as caught:
        sizes(f"sizes:\n- exact: [1, 1, 1]\n- csv: {name}\n", file=folder / "f.yaml")
    assert (caught.value.key, caught.value.at.line) == ("sizes[1].csv", 3)


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_a_csv_file_that_is_no_regular_file_is_refused(tmp_path, kind):
    if kind == "FIFO":
        os.mkfifo(tmp_path / "s.csv")
        words = "regular file"
    else:
        (tmp_path / "s.csv").symlink_to("/dev/zero")
        words = "outside"
    with pytest.raises(UserError, match=words):
        sizes("sizes: [{csv: s.csv}]", file=tmp_path / "f.yaml")


def test_sizes_of_batches_stand_in_the_order_of_tensiles_indices():
    text = "sizes: [{range: [[8, 8, 16], 4, [2, 1, 3], 32]}, {exact: [9, 8, 7, 6]}]"
    found = sizes(text, batched=True)
    assert found.ranges == ((8, 4, 32, 2), (8, 4, 32, 3), (16, 4, 32, 2), (16, 4, 32, 3))
    assert found.exact == ((9, 8, 6, 7),)
    with pytest.raises(UserError, check=coded("syntax", key="sizes[0]", found=[9, 8, 7], line=2)) as raised:
        sizes("sizes:\n- {exact: [9, 8, 7]}", batched=True)
    assert (raised.value.at.line, raised.value.key) == (2, "sizes[0]")
    assert "m, n, batch, k" in raised.value.accepted
    with pytest.raises(UserError, check=coded("syntax", key="sizes[0]", found=[9, 8, 7, 6], line=1)):
        sizes("sizes: [{exact: [9, 8, 7, 6]}]")


def test_random_batches_have_any_number_of_members():
    found = np.array(drawn(box(count=200, low=[8, 8, 3, 8], high=[99, 99, 50, 9], aligned=1.0), BATCH_AXES))
    assert (found[:, :2] % 4 == 0).all()
    assert found[:, 2].max() == 8
    assert found[:, 3].min() >= 3
    assert len(set(found[:, 3] % 4)) == 4
    with pytest.raises(UserError, check=coded("syntax", found=[9, 9, 9])):
        drawn(box(count=9, high=[9, 9, 9]), BATCH_AXES)


def test_a_csv_file_of_batches_has_their_column(tmp_path):
    (tmp_path / "s.csv").write_text("m,n,k,batch,a_t,b_t\n1,2,3,40,0,0\n4,5,6,7,1,0\n")
    assert from_csv(tmp_path / "s.csv", of("nn", batched=True)) == ((1, 2, 3, 40),)
    assert from_csv(tmp_path / "s.csv", of("nn")) == ((1, 2, 3),)
    (tmp_path / "s.csv").write_text("m,n,k,a_t,b_t\n1,2,3,0,0\n")
    with pytest.raises(UserError, check=coded("missing-key", found=["m", "n", "k", "a_t", "b_t"], line=1)):
        from_csv(tmp_path / "s.csv", of("nn", batched=True))

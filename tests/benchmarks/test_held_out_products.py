"""`benchmarks/held_out_products.py`: which times are drawn."""

from __future__ import annotations

from dataclasses import replace

from lab.store import published


def test_a_draw_takes_kernels_template_by_template_and_is_the_same_each_time(benchmark_script):
    script = benchmark_script("held_out_products")
    one = script.Timed("page", "hgemm/a.cu.j2", "{}", "tn", (8, 8, 8), 1.0, "warm")
    many = [replace(one, template=f"hgemm/{name}.cu.j2", parameters=str(n)) for name in "ab" for n in range(4)]
    few = [replace(each, size=(16, 8, 8)) for each in many[:4]]
    found = script.drawn([*many, *few], 3, 7)
    # the second size has four kernels, all of one template
    assert {each.size for each in found} == {(8, 8, 8)}
    assert [each.template[6] for each in found] == ["a", "b", "a", "b", "a"]
    assert found == script.drawn([*reversed(many), *few], 3, 7)


def test_the_kernel_decides_what_is_held_out_and_not_the_size(benchmark_script):
    script = benchmark_script("held_out_products")
    one = script.Timed("page", "hgemm/a.cu.j2", "{}", "tn", (8, 8, 8), 1.0, "warm")
    halves = [replace(one, parameters=str(n)) for n in range(64)]
    assert 16 < sum(each.held_out for each in halves) < 48
    assert all(each.held_out is replace(each, size=(9, 9, 9), ms=2.0).held_out for each in halves)


def test_the_published_times_have_the_parameters_of_their_kernels(benchmark_script):
    script = benchmark_script("held_out_products")
    times = script.times_of(script.PAGES[1])
    assert len(times) > 1000
    assert {time.template.partition("/")[0] for time in times} <= {"hgemm", "gemm"}
    assert all(time.ms > 0 and time.cache in ("warm", "cold") for time in times)
    page = script.times_of_page(script.GPU)
    timed = [record for record in published.read_records(script.GPU).records if record.measurement is not None]
    assert len(page) == len(timed) > 100
    assert {each.cache for each in page} == {"cold"}

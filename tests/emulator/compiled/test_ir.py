import pytest

from lab.emulator.compiled.ir import Code, element, lanes_of, signed, splat, vector


def test_types_are_those_of_a_warp():
    assert [element(t) for t in ("pred", "u8", "b16", "s32", "f32", "b64", "f64")] == [
        "i1", "i8", "i16", "i32", "float", "i64", "double",
    ]  # fmt: skip
    assert vector("f32") == "<32 x float>"


@pytest.mark.parametrize(("value", "bits", "wanted"), [(255, 8, -1), (127, 8, 127), (1 << 31, 32, -(1 << 31))])
def test_constants_are_written_as_signed(value, bits, wanted):
    assert signed(value, bits) == wanted
    assert splat(value, bits) == f"splat (i{bits} {wanted})"


def test_a_constant_for_each_lane():
    assert lanes_of([1, 2**32 - 1]) == "<i32 1, i32 -1>"


def test_code_names_each_result_once():
    code = Code()
    names = [code.op("add i32 1, 2"), code.op("add i32 3, 4"), code.bitcast("<32 x i32>", "%x", "<32 x float>")]
    assert len(set(names)) == 3
    assert code.bitcast("<32 x i32>", "%x", "<32 x i32>") == "%x"
    assert code.lines[0] == f"  {names[0]} = add i32 1, 2"


def test_fresh_names_and_results_share_one_count():
    code = Code()
    assert [code.fresh(), code.op("add i32 1, 2"), code.fresh("x"), code.op("add i32 1, 2")] == [
        "t1",
        "%t2",
        "x3",
        "%t4",
    ]


def test_fields_behind_a_pointer():
    code = Code()
    code.set_field("%p", 12, "i32", code.field("%p", 8, "i32"))
    code.add_to("%q", 16, "%n")
    code.label("end")
    assert code.lines == [
        "  %t1 = getelementptr i8, ptr %p, i64 8",
        "  %t2 = load i32, ptr %t1, align 4",
        "  %t3 = getelementptr i8, ptr %p, i64 12",
        "  store i32 %t2, ptr %t3, align 4",
        "  %t4 = getelementptr i8, ptr %q, i64 16",
        "  %t5 = load i64, ptr %t4, align 8",
        "  %t6 = add i64 %t5, %n",
        "  store i64 %t6, ptr %t4, align 8",
        "end:",
    ]

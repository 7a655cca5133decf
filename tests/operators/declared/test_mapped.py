"""Tensor maps as an argument's text describes them."""

from lab.operators.declared.mapped import MappedView, bracketed


def test_the_contiguous_dimension_comes_first():
    assert MappedView(("64", "32")).sides(("m", "k")) == (("k", "m"), ("(k)",))
    assert MappedView(("8",)).sides(("n",)) == (("n",), ())
    assert MappedView(("1", "8", "8")).sides(("b", "m", "k")) == (("k", "m", "b"), ("(k)", "(m) * (k)"))


def test_a_view_has_dimensions_of_its_own():
    view = MappedView(("1", "64", "32"), ("k // 32", "m", "32"), ("32", "k", "1"), "64")
    assert view.sides(("m", "k")) == (("32", "m", "k // 32"), ("k", "32"))
    assert str(view) == "as map[1, 64, 32] of [k // 32, m, 32] strides [32, k, 1] swizzle 64"
    assert view.expressions == ("1", "64", "32", "k // 32", "m", "32", "32", "k", "1", "64")


def test_a_map_for_im2col_has_corners():
    view = MappedView(("pixels", "32"), swizzle="64", corners=(("-1", "0"), ("-1", "1 - r"), ("1", "2")))
    assert str(view) == "as im2col[pixels, 32] lower [-1, 0] upper [-1, 1 - r] steps [1, 2] swizzle 64"
    assert view.expressions == ("pixels", "32", "64", "-1", "0", "-1", "1 - r", "1", "2")


def test_a_list_ends_at_its_own_bracket():
    assert bracketed("x[max(a, b), c[0]] d", 1) == ([(2, "max(a, b)"), (12, " c[0]")], 18)
    assert bracketed("x[a", 1) is None

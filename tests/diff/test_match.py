from __future__ import annotations

from lab.diff.match import KernelKey, match


def key(symbol: str, image: int = 0, where: str = "", arch: str = "sm_90", **more) -> KernelKey:
    return KernelKey(image, where, "", arch, symbol, **more)


def names(pairs) -> list[tuple[str, str]]:
    return [(a.symbol, b.symbol) for a, b in pairs]


def test_by_symbol_and_architecture():
    matched = match([key("a"), key("a", 1, arch="sm_80")], [key("a", arch="sm_80"), key("a", 1)])
    assert [(a.arch, b.arch) for a, b in matched.pairs] == [("sm_90", "sm_90"), ("sm_80", "sm_80")]
    assert not matched.added + matched.removed


def test_copies_of_one_symbol_stay_in_their_files():
    base = [key("a", 0, "lib/one.so"), key("a", 1, "lib/two.so")]
    head = [key("a", 0, "lib/two.so"), key("a", 1, "lib/one.so")]
    assert [(a.where, b.where) for a, b in match(base, head).pairs] == [("lib/one.so",) * 2, ("lib/two.so",) * 2]


def test_several_compilers_are_matched_each_with_itself():
    """One release refuses the source on one side."""
    base = [KernelKey(0, "", "nvrtc 12.9", "sm_90", "a"), KernelKey(1, "", "nvrtc 13.5", "sm_90", "a")]
    matched = match(base, [KernelKey(0, "", "nvrtc 13.5", "sm_90", "a")])
    assert [(a.toolchain, b.toolchain) for a, b in matched.pairs] == [("nvrtc 13.5", "nvrtc 13.5")]
    newer = match(base[:1], [KernelKey(0, "", "nvrtc 13.5", "sm_90", "a")])
    assert len(newer.pairs) == 1


def test_the_nearest_template_arguments():
    """One argument was added; the nearest instance is the one with the same first argument."""
    base = [key("_Z1fILi8EEvPf"), key("_Z1fILi16EEvPf")]
    head = [key("_Z1fILi16ELb0EEvPf"), key("_Z1fILi8ELb0EEvPf")]
    assert names(match(base, head).pairs) == [
        ("_Z1fILi8EEvPf", "_Z1fILi8ELb0EEvPf"), ("_Z1fILi16EEvPf", "_Z1fILi16ELb0EEvPf"),
    ]  # fmt: skip


def test_by_code_alone():
    matched = match(
        [key("old", opcodes={1: 10, 2: 3}), key("gone", opcodes={9: 1})],
        [key("new", opcodes={1: 10, 2: 4}), key("fresh", opcodes={7: 5})],
    )
    assert names(matched.pairs) == [("old", "new")]
    assert [k.symbol for k in matched.removed + matched.added] == ["gone", "fresh"]

from __future__ import annotations

import pytest

from lab.diff.demangle import base_of, demangled, stable_symbol


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("scale", "scale"),
        ("_Z5scalePfPKffi", "scale"),
        ("_Z2spILi40EEvPd", "sp<40>"),
        ("_ZN2ns3addIfLi4EEEvPT_", "ns::add<float, 4>"),
    ],
)
def test_names(symbol, name):
    assert demangled(symbol) == name


def test_a_name_without_a_demangler(monkeypatch):
    monkeypatch.setattr("lab.diff.demangle._demangler", lambda: None)
    demangled.cache_clear()
    assert demangled("_ZN2ns3addIfLi4EEEvPT_") == "ns::add"
    demangled.cache_clear()


def test_internal_linkage_does_not_depend_on_the_folder():
    first = "_ZN37_GLOBAL__N__d3b07384_4_a_cu_c1579be55addEPf"
    second = "_ZN37_GLOBAL__N__ffffffff_4_a_cu_00000000" + "5addEPf"
    assert len("_GLOBAL__N__ffffffff_4_a_cu_00000000") == 36
    first = first.replace("_ZN37", "_ZN36").replace("c1579be55add", "c1579be5" + "5add")
    assert stable_symbol(first) == stable_symbol(second.replace("_ZN37", "_ZN36"))


def test_base_name():
    assert base_of("ns::add<float, 4>") == "ns::add"

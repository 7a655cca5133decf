import os

import pytest

from lab.emulator.compiled import native as module
from lab.emulator.compiled.native import code_key, forget, is_kept

TEXT = """define i32 @run(ptr %c, i64 %a, i64 %b) {{
  %s = add i64 %a, %b
  %t = trunc i64 %s to i32
  %u = add i32 %t, {}
  ret i32 %u
}}"""


def native(text, folder):
    return module.native(code_key(text), folder, lambda: (text, "what it is"))


@pytest.fixture
def compiled(monkeypatch):
    """Notes each compilation."""
    compilations: list[str] = []
    real = module._parse

    def parse(text):
        compilations.append(text)
        return real(text)

    monkeypatch.setattr(module, "_parse", parse)
    forget()
    yield compilations
    forget()


def test_code_runs_and_is_kept(tmp_path, compiled):
    text = TEXT.format(1)
    assert native(text, tmp_path).run(None, 2, 3) == 6
    (entry,) = tmp_path.glob("*.object")
    assert entry.stem == code_key(text)
    forget()
    assert native(text, tmp_path).run(None, 2, 3) == 6
    assert compiled.count(text) == 1
    assert native(text, tmp_path).about == "what it is"
    assert is_kept(code_key(text), tmp_path)
    assert not is_kept(code_key(""), tmp_path)


@pytest.mark.parametrize("harm", ["cut", "changed", "renamed", "writable"])
def test_an_entry_that_cannot_be_trusted_is_compiled_again(tmp_path, compiled, harm):
    text, other = TEXT.format(1), TEXT.format(2)
    native(text, tmp_path)
    entry = tmp_path / f"{code_key(text)}.object"
    content = entry.read_bytes()
    if harm == "cut":
        entry.write_bytes(content[:-9])
    elif harm == "changed":
        entry.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif harm == "renamed":
        entry.rename(tmp_path / f"{code_key(other)}.object")
        text = other
    elif hasattr(os, "getuid"):
        entry.chmod(0o666)
    else:
        pytest.skip("this system has no such permissions")
    forget()
    assert native(text, tmp_path).run(None, 2, 3) == (7 if harm == "renamed" else 6)
    assert compiled.count(text) == (1 if harm == "renamed" else 2)


def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert native(TEXT.format(3), blocked / "cache").run(None, 0, 0) == 3

"""Addresses and keys."""

from __future__ import annotations

import stat

import pytest
from mistakes import coded

from lab.base.errors import MissingToolError, UserError
from lab.cluster.security import AUTHORITY, CERTIFICATE, KEY, check_installed, make_keys, way_to


@pytest.fixture
def keys(tmp_path):
    pytest.importorskip("cryptography")
    make_keys(tmp_path / "keys")
    return tmp_path / "keys"


def test_the_private_key_is_its_owners_alone(keys) -> None:
    assert stat.S_IMODE((keys / KEY).stat().st_mode) == 0o600
    assert sorted(path.name for path in keys.iterdir()) == sorted((AUTHORITY, CERTIFICATE, KEY))


def test_the_certificate_is_signed_by_the_authority_and_no_other(keys, tmp_path) -> None:
    from cryptography import x509  # noqa: PLC0415 - of an extra
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    make_keys(tmp_path / "other")
    own = x509.load_pem_x509_certificate((keys / CERTIFICATE).read_bytes())
    own.verify_directly_issued_by(x509.load_pem_x509_certificate((keys / AUTHORITY).read_bytes()))
    with pytest.raises(InvalidSignature):
        own.verify_directly_issued_by(x509.load_pem_x509_certificate((tmp_path / "other" / AUTHORITY).read_bytes()))


def test_keys_are_never_replaced(keys) -> None:
    before = (keys / KEY).read_bytes()
    with pytest.raises(UserError, check=coded("exists")):
        make_keys(keys)
    assert (keys / KEY).read_bytes() == before


def test_tls_needs_whole_and_private_keys(keys) -> None:
    assert way_to("tls://node", keys, insecure=False).address == "tls://node:8786"
    (keys / KEY).chmod(0o644)
    with pytest.raises(UserError, check=coded("refused", key="--keys")):
        way_to("tls://node", keys, insecure=False)
    (keys / KEY).unlink()
    with pytest.raises(UserError, match=f"lacks {KEY}"):
        way_to("tls://node", keys, insecure=False)
    with pytest.raises(UserError, check=coded("missing-key", key="--keys")):
        way_to("tls://node", None, insecure=False)


def test_tcp_needs_the_word() -> None:
    with pytest.raises(UserError, check=coded("refused", key="--cluster", found="tcp://10.0.0.1:9")) as caught:
        way_to("tcp://10.0.0.1:9", None, insecure=False)
    assert "--insecure" in str(caught.value)
    assert way_to("tcp://[::1]:9", None, insecure=True).address == "tcp://[::1]:9"


@pytest.mark.parametrize("address", ["node:8786", "http://node", "tls://", "tls://node:port", "tls://node/x", "locl"])
def test_what_is_no_address_is_refused(address, tmp_path) -> None:
    with pytest.raises(UserError, check=coded("wrong-value", key="--cluster")):
        way_to(address, tmp_path, insecure=True)


def test_without_the_extra_the_command_that_installs_it_is_printed(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "distributed" else object())
    check_installed("cryptography")
    with pytest.raises(MissingToolError, match=r"distributed, which is not installed.*pip install -e '.\[cluster\]'"):
        check_installed("cryptography", "distributed")

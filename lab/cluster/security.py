"""Access control of a cluster: a Dask scheduler executes whatever it receives, so it must require TLS.

All hosts of a cluster share a certificate, signed by the cluster's own authority. Whoever has the key can take part,
as client or as worker; for others, the handshake fails.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lab.base.environment import install_command
from lab.base.errors import MissingToolError, UserError

if TYPE_CHECKING:
    from distributed import Security

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "cluster.pem", "cluster-key.pem"
"""Files in a folder of keys. Every host needs all three; only the last one is secret."""

PORT = 8786
"""Default port of a Dask scheduler."""

_DAYS = 825
"""Validity of certificates in days; many TLS libraries reject longer ones."""


@dataclass(frozen=True, slots=True)
class Way:
    """Address and keys of a scheduler.

    Attributes:
        address: ``tls://host:8786``.
        keys: Folder of keys; None for an insecure connection.
    """

    address: str
    keys: Path | None

    @property
    def security(self) -> Security | None:
        """Dask's security settings; None for an insecure connection."""
        return None if self.keys is None else security_of(self.keys)


def check_installed(*names: str) -> None:
    """Check that packages of the extra are installed.

    Args:
        names: Required packages: `distributed`, or `cryptography`, which makes keys.

    Raises:
        MissingToolError: One is missing.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise MissingToolError(
                f"a cluster needs {name}, which is not installed; install it: {install_command('cluster')}"
            )


def way_to(address: str, keys: Path | None, *, insecure: bool) -> Way:
    """Parse and check an address.

    Args:
        address: The address given by the user.
        keys: Folder of keys, if one was given.
        insecure: The user accepts a connection that anybody can read and use.

    Raises:
        UserError: It is not an address, it is not TLS without `insecure`, or the keys are missing.
    """
    accepted = f"local, or tls://host:{PORT}; tcp://host:{PORT} with --insecure"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host, port = None, PORT
    if not host or parts.scheme not in {"tls", "tcp"} or parts.path not in {"", "/"} or parts.query:
        raise UserError(
            "not the address of a scheduler", code="wrong-value", key="--cluster", found=address, accepted=accepted
        )
    url_host = f"[{host}]" if ":" in host else host
    url = f"{parts.scheme}://{url_host}:{port}"
    if parts.scheme == "tcp":
        if not insecure:
            raise UserError(
                "a scheduler executes whatever it receives, and anybody who can reach this address can send to it",
                code="refused",
                key="--cluster",
                found=address,
                accepted=accepted,
                suggestion=f"`lab cluster keys DIR` makes what tls://{url_host}:{port} needs",
            )
        return Way(url, None)
    if keys is None:
        raise UserError(
            "TLS needs keys", code="missing-key", key="--keys", accepted="a folder that `lab cluster keys DIR` made"
        )
    missing = [name for name in (AUTHORITY, CERTIFICATE, KEY) if not (keys / name).is_file()]
    if missing:
        raise UserError(
            f"the folder of keys lacks {', '.join(missing)}",
            code="missing-file",
            key="--keys",
            found=str(keys),
            accepted="a folder that `lab cluster keys DIR` made",
        )
    if (keys / KEY).stat().st_mode & 0o077:
        raise UserError(
            "others may read the private key",
            code="refused",
            key="--keys",
            found=f"{keys / KEY}: mode {(keys / KEY).stat().st_mode & 0o777:o}",
            accepted="mode 600",
            suggestion=f"chmod 600 {keys / KEY}",
        )
    return Way(url, keys)


def security_of(keys: Path) -> Security:
    """Return Dask's security settings for a folder of keys."""
    from distributed import Security

    files = {f"tls_{role}_cert": str(keys / CERTIFICATE) for role in ("client", "worker", "scheduler")}
    files |= {f"tls_{role}_key": str(keys / KEY) for role in ("client", "worker", "scheduler")}
    return Security(tls_ca_file=str(keys / AUTHORITY), require_encryption=True, **files)


def make_keys(folder: Path) -> tuple[Path, ...]:
    """Create an authority and one certificate for all hosts of a cluster.

    The authority's private key is discarded: no further certificate can be signed, so nobody can join later with a key
    that is not in this folder.

    Returns:
        The files.

    Raises:
        UserError: The folder already holds keys; replacing them would lock out hosts with copies of them.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    if existing := [name for name in (AUTHORITY, CERTIFICATE, KEY) if (folder / name).exists()]:
        raise UserError(
            f"the folder holds {', '.join(existing)} already",
            code="exists",
            found=str(folder),
            accepted="another folder",
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lab cluster authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lab cluster")])
    now = dt.datetime.now(dt.UTC)
    since, until = now - dt.timedelta(days=1), now + dt.timedelta(days=_DAYS)

    def certificate(name: x509.Name, key: ec.EllipticCurvePrivateKey, *, signs: bool) -> bytes:
        built = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(since)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=not signs,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=signs,
                    crl_sign=signs,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
        )
        return built.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM)

    secret = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    texts = {
        AUTHORITY: (certificate(issuer, authority, signs=True), 0o644),
        CERTIFICATE: (certificate(subject, own, signs=False), 0o644),
        KEY: (secret, 0o600),
    }
    for name, (text, mode) in texts.items():
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(handle, "wb") as file:  # noqa: PTH123 - it is open already, with its mode
            file.write(text)
    return tuple(folder / name for name in texts)

"""The development certificate."""

import ssl
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from federation.http.server.development_certificate import (
    LIFETIME,
    RENEW_BEFORE,
    DevelopmentCertificate,
    DevelopmentFiles,
    build,
    ensure,
    is_usable,
    names_for,
)
from federation.http.server.tls import Tls, TlsFiles
from storage.errors import LocalError
from tests.federation.http.running import running

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = names_for("kitchen.local:7676")
SECOND = timedelta(seconds=1)


@pytest.fixture(scope="module")
def made() -> DevelopmentCertificate:
    return build(NAMES, NOW)


@pytest.mark.parametrize(
    ("server_name", "first"),
    [("Kitchen.local:7676", "kitchen.local"), ("192.0.2.7:7676", "192.0.2.7"), ("[2001:db8::1]", "2001:db8::1")],
)
def test_it_is_for_the_server_name_and_for_this_machine(server_name: str, first: str) -> None:
    """The server name's host, and all names of loopback."""
    assert names_for(server_name) == (first, "localhost", "127.0.0.1", "::1")


def test_names_have_no_duplicates() -> None:
    """The default server name is one of the loopback names."""
    assert names_for("localhost:7676") == ("localhost", "127.0.0.1", "::1")


def test_names_and_addresses_have_their_own_types(made: DevelopmentCertificate) -> None:
    """Clients that connect to an address compare addresses."""
    certificate = x509.load_pem_x509_certificate(made.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kitchen.local", "localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


def test_its_authority_can_sign_nothing_else(made: DevelopmentCertificate) -> None:
    """The authority's key is not stored, and it may not sign authorities."""
    authority = x509.load_pem_x509_certificate(made.authority)
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    key = load_pem_private_key(made.private_key, None)
    assert key.public_key() != authority.public_key()


@pytest.mark.parametrize(
    ("now", "usable"),
    [
        (NOW, True),
        (NOW + LIFETIME - RENEW_BEFORE, True),
        (NOW + LIFETIME - RENEW_BEFORE + SECOND, False),
        (NOW + LIFETIME + SECOND, False),
        (NOW - timedelta(days=1), False),
    ],
)
def test_it_is_usable_until_a_month_before_its_expiry(
    made: DevelopmentCertificate, now: datetime, usable: bool
) -> None:
    """And not before its start, as on a machine whose clock was set back."""
    assert is_usable(made, NAMES, now) is usable


def test_it_is_usable_for_exactly_its_names(made: DevelopmentCertificate) -> None:
    """A renamed node needs another one."""
    assert not is_usable(made, names_for("garden.local"), NOW)


def test_files_of_different_runs_are_not_usable(made: DevelopmentCertificate) -> None:
    """A crash can leave them."""
    other = build(NAMES, NOW)
    for mixed in (
        replace(made, authority=other.authority),
        replace(made, certificate=other.certificate),
        replace(made, private_key=other.private_key),
    ):
        assert not is_usable(mixed, NAMES, NOW)


@pytest.mark.parametrize("junk", [b"", b"junk", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_damaged_files_are_not_usable(made: DevelopmentCertificate, junk: bytes) -> None:
    """Whatever they contain."""
    assert not is_usable(DevelopmentCertificate(junk, made.certificate, made.private_key), NAMES, NOW)
    assert not is_usable(DevelopmentCertificate(made.authority, junk, made.private_key), NAMES, NOW)
    assert not is_usable(DevelopmentCertificate(made.authority, made.certificate, junk), NAMES, NOW)


def test_it_is_created_once(tmp_path: Path) -> None:
    """Peers that trust `ca.pem` continue to trust it."""
    first = _contents(ensure(tmp_path / "tls", "kitchen.local", NOW))
    assert _contents(ensure(tmp_path / "tls", "kitchen.local", NOW)) == first


@pytest.mark.parametrize(
    ("name", "now"), [("garden.local", NOW), ("kitchen.local", NOW + LIFETIME - RENEW_BEFORE + SECOND)]
)
def test_it_is_replaced_for_another_name_or_before_its_expiry(tmp_path: Path, name: str, now: datetime) -> None:
    """All three files, since the authority's key was discarded."""
    first = _contents(ensure(tmp_path, "kitchen.local", NOW))
    second = _contents(ensure(tmp_path, name, now))
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_a_missing_file_replaces_all(tmp_path: Path) -> None:
    """Otherwise the files would not match."""
    files = ensure(tmp_path, "kitchen.local", NOW)
    files.private_key.unlink()
    again = ensure(tmp_path, "kitchen.local", NOW)
    assert is_usable(DevelopmentCertificate(*_contents(again)), NAMES, NOW)


def test_only_this_program_can_read_the_key(tmp_path: Path) -> None:
    """The certificates are public."""
    files = ensure(tmp_path / "tls", "kitchen.local", NOW)
    assert stat.S_IMODE(files.private_key.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.authority.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in (tmp_path / "tls").iterdir()) == ["ca.pem", "certificate.pem", "key.pem"]


def test_an_unusable_directory_is_reported(tmp_path: Path) -> None:
    """Here a file has its name."""
    (tmp_path / "tls").write_text("")
    with pytest.raises(LocalError, match=r"could not be written or read: .*Make the directory writable"):
        ensure(tmp_path / "tls", "kitchen.local", NOW)


async def test_clients_that_trust_the_authority_can_connect(tmp_path: Path) -> None:
    """By server name and by address, with OpenSSL's strictest checks."""
    files = ensure(tmp_path, "localhost:7676")
    context = ssl.create_default_context(cafile=files.authority)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    tls = Tls(TlsFiles(files.certificate, files.private_key))
    async with running(tls=tls) as node, await node.connect(context) as client:
        assert (await client.ask()).status == 200


def _contents(files: DevelopmentFiles) -> tuple[bytes, bytes, bytes]:
    return files.authority.read_bytes(), files.certificate.read_bytes(), files.private_key.read_bytes()

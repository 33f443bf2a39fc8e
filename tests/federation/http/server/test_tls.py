"""Loading and reloading of TLS files."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from federation.http.server.tls import Tls, TlsFiles
from storage.errors import LocalError
from tests.federation.http.running import CUT_OFF, client_context, running
from tests.support.tls import DAY, Authority


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> TlsFiles:
    """Certificate and key that a test may damage."""
    return TlsFiles(*authority.issue("localhost").write(tmp_path, "server"))


def problem_of(files: TlsFiles) -> str:
    with pytest.raises(LocalError) as refused:
        Tls(files)
    return str(refused.value)


def test_a_missing_certificate_or_key_is_reported(files: TlsFiles, tmp_path: Path) -> None:
    """With the path."""
    missing = tmp_path / "nowhere.pem"
    assert f"certificate {missing} could not be read: No such file" in problem_of(TlsFiles(missing, files.private_key))
    assert f"private key {missing} could not be read: No such file" in problem_of(TlsFiles(files.certificate, missing))


def test_an_invalid_certificate_or_key_is_reported(files: TlsFiles, tmp_path: Path) -> None:
    """Other PEM files are invalid too."""
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    assert "is not a certificate in PEM" in problem_of(TlsFiles(junk, files.private_key))
    assert "cannot be used: OpenSSL reports" in problem_of(TlsFiles(files.certificate, junk))


def test_a_key_of_another_certificate_is_reported(files: TlsFiles, authority: Authority, tmp_path: Path) -> None:
    """A common mistake after a renewal."""
    _, key = authority.issue("localhost").write(tmp_path, "other")
    assert "does not match the certificate" in problem_of(TlsFiles(files.certificate, key))


def test_an_encrypted_key_is_reported(files: TlsFiles, authority: Authority, tmp_path: Path) -> None:
    """Without a prompt for a password."""
    issued = authority.issue("localhost")
    certificate, key = issued.write(tmp_path, "encrypted")
    key.write_bytes(issued.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    assert "is encrypted" in problem_of(TlsFiles(certificate, key))


@pytest.mark.parametrize(
    ("begins", "ends", "problem"), [(-2 * DAY, -DAY, "expired on"), (DAY, 2 * DAY, "is not valid before")]
)
def test_an_expired_or_future_certificate_is_reported(
    authority: Authority, tmp_path: Path, begins: timedelta, ends: timedelta, problem: str
) -> None:
    """OpenSSL would serve it, and all peers would refuse it."""
    now = datetime.now(UTC)
    issued = authority.issue("localhost", begins=now + begins, ends=now + ends)
    assert problem in problem_of(TlsFiles(*issued.write(tmp_path, "server")))


def test_client_certificates_are_requested_only_if_a_peer_has_one(
    files: TlsFiles, authority: Authority, tmp_path: Path
) -> None:
    """Browsers would prompt their users."""
    assert Tls(files).current.context.verify_mode is ssl.CERT_NONE
    pinned = authority.write(tmp_path, "peer")
    context = Tls(TlsFiles(files.certificate, files.private_key, {"a.example": pinned})).current.context
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert context.verify_flags & ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


async def test_old_tls_versions_and_other_protocols_are_refused(files: TlsFiles, authority: Authority) -> None:
    """At least TLS 1.2 with forward secrecy; of ALPN only HTTP/1.1."""
    async with running(tls=Tls(files)) as node:
        context = client_context(authority)
        context.set_alpn_protocols(["h2", "http/1.1"])
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        async with await node.connect(context) as client:
            shown = client.writer.get_extra_info("ssl_object")
            assert shown.selected_alpn_protocol() == "http/1.1"
            assert shown.cipher()[0].startswith("ECDHE-")
        weak = client_context(authority)
        weak.maximum_version = ssl.TLSVersion.TLSv1_2
        weak.set_ciphers("AES128-SHA:@SECLEVEL=0")
        with pytest.raises(CUT_OFF):
            await node.connect(weak)
        await node.seen.until(lambda seen: seen.failed == ["protocol"])


async def test_a_reload_affects_new_connections_only(files: TlsFiles, authority: Authority, tmp_path: Path) -> None:
    """A renewed certificate is used at once, and open connections stay."""
    tls = Tls(files)
    async with running(tls=tls) as node:
        async with await node.connect(client_context(authority)) as old:
            assert (await old.ask()).status == 200
            successor = Authority("Successor")
            successor.issue("localhost").write(tmp_path, "server")
            assert tls.reload() is None
            assert (await old.ask()).status == 200
            async with await node.connect(client_context(successor)) as new:
                assert (await new.ask()).status == 200
                assert (await old.ask()).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            await node.connect(client_context(authority))


async def test_a_failed_reload_keeps_the_old_certificate(files: TlsFiles, authority: Authority) -> None:
    """And returns the error: a half-written file must not disable TLS."""
    tls = Tls(files)
    async with running(tls=tls) as node:
        files.certificate.write_text("half writ")
        error = tls.reload()
        assert isinstance(error, LocalError)
        assert "is not a certificate in PEM" in error.problem
        async with await node.connect(client_context(authority)) as client:
            assert (await client.ask()).status == 200

import ssl
from pathlib import Path

from bench._limits.certificate import write_certificate


def test_a_client_that_trusts_the_certificate_accepts_loopback(tmp_path: Path) -> None:
    """By its address, verified as any other."""
    certificate, key = write_certificate(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for side in (asking, serving, asking, serving):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert asking.version() == "TLSv1.3"
    assert ("IP Address", "127.0.0.1") in asking.getpeercert()["subjectAltName"]  # type: ignore[index]

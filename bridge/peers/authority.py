"""The certificates that a peer's own may come from, as an operator gives them.

They are kept in the database and shown to nobody, and yet a private key has no business among them: it is
refused, and not cut out, so that its owner learns where it was about to go.
"""

import re
from typing import Final

from cryptography import x509

from storage.errors import LocalError

MOST_BYTES: Final = 64 * 1024
_BLOCK: Final = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", re.ASCII)
_ADVICE: Final = (
    "Name a file of certificates in PEM: of a peer with a development certificate, the tls/ca.pem of its data"
    " directory."
)


def read_authority(text: str) -> str | LocalError:
    """The certificates alone, without what else a file may hold; or why there are none."""
    if len(text) > MOST_BYTES:
        return LocalError(f"The authority has more than {MOST_BYTES // 1024} KiB.", _ADVICE)
    if "PRIVATE KEY" in text:
        return LocalError(
            "The authority has a private key in it, which was not kept.",
            "Name a file that holds certificates alone; if that key has left its place, make a new one.",
        )
    blocks = _BLOCK.findall(text)
    if not blocks:
        return LocalError("The authority has no certificate in it.", _ADVICE)
    certificates = "\n".join(blocks) + "\n"
    try:
        x509.load_pem_x509_certificates(certificates.encode())
    except ValueError:
        return LocalError("The authority holds something that is no certificate.", _ADVICE)
    return certificates

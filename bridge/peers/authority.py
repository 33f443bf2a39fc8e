"""Reads the CA certificates that an operator gives for a peer.

They are stored in the database and never shown. A private key among them is refused instead of being removed
silently, so that its owner learns about the mistake.
"""

import re
from typing import Final

from cryptography import x509

from storage.errors import LocalError

MAX_BYTES: Final = 64 * 1024
_BLOCK: Final = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", re.ASCII)
_ADVICE: Final = (
    "Use a PEM file of certificates: for a peer with a development certificate, the tls/ca.pem of its data directory."
)


def read_authority(text: str) -> str | LocalError:
    """Return the certificates without the file's other contents, or why there are none."""
    if len(text) > MAX_BYTES:
        return LocalError(f"The authority has more than {MAX_BYTES // 1024} KiB.", _ADVICE)
    if "PRIVATE KEY" in text:
        return LocalError(
            "The authority file contains a private key, which was not stored.",
            "Use a file that contains only certificates; if the key was exposed, replace it.",
        )
    blocks = _BLOCK.findall(text)
    if not blocks:
        return LocalError("The authority file contains no certificate.", _ADVICE)
    certificates = "\n".join(blocks) + "\n"
    try:
        x509.load_pem_x509_certificates(certificates.encode())
    except ValueError:
        return LocalError("The authority file contains an invalid certificate.", _ADVICE)
    return certificates

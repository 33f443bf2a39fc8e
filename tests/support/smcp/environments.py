"""The environments of the published clients: beside the environment of the tests, one per version."""

import sys
from pathlib import Path

# Of the package; the version of the protocol is another number, and the only one that travels.
VERSIONS = ("0.4.2", "0.3.3", "0.2.2", "0.1.2")
PROTOCOLS = {"0.4.2": "0.4.0", "0.3.3": "0.3.1", "0.2.2": "0.2.0", "0.1.2": None}


class NotInstalled(AssertionError):
    """There is no environment with that version."""


def python(version: str) -> Path:
    """Return the interpreter that has this version of `a2c-smcp`, without the project's packages."""
    environment = Path(f"{sys.prefix}-smcp-{version}")
    if not (environment / ".installed").exists():
        raise NotInstalled(f"a2c-smcp {version} is not installed in {environment}; `make install` does it")
    return environment / "bin" / "python"


def is_at_least(version: str, minimum: str) -> bool:
    return [int(part) for part in version.split(".")] >= [int(part) for part in minimum.split(".")]

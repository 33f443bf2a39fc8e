"""Whether our five top-level names are ours alone.

PyPI has an unrelated package `federation` that installs over ours without a word; half of each then answers.
"""

import importlib.util
import re
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

NAMES = ("bridge", "appservice", "federation", "storage", "migrations")
DISTRIBUTION = "palaver"


def foreign_claims(installed: Iterable[Distribution] | None = None) -> dict[str, str]:
    """The distributions that have put files below one of our names, by that name."""
    claims = {}
    for distribution in installed if installed is not None else distributions():
        name = distribution.metadata["Name"] or "an unnamed distribution"
        if re.sub(r"[-_.]+", "-", name).lower() == DISTRIBUTION:
            continue
        for file in distribution.files or ():
            if len(file.parts) > 1 and file.parts[0] in NAMES:
                claims[file.parts[0]] = name
    return claims


def homes() -> dict[str, Path | None]:
    """The directory that each name is imported from; they must all be one."""
    found = {}
    for name in NAMES:
        spec = importlib.util.find_spec(name)
        origin = spec.origin if spec is not None else None
        found[name] = Path(origin).parent.parent if origin is not None else None
    return found

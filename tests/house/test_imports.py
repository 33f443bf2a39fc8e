"""Design: imports go one way only, bridge → appservice → federation → storage, and so within the first three.

The contracts are in pyproject.toml, with the imports that still violate them.
"""

from importlinter.cli import lint_imports

from tests.house.source import ROOT


def test_imports_go_one_way() -> None:
    """A package imports only packages below it; no connector imports another."""
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0

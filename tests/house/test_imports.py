"""Design, section 2: imports go one way only, bridge → appservice → federation → storage."""

import pytest

from tests.house.source import Module, modules

ORDER = ["storage", "federation", "appservice", "bridge"]


@pytest.mark.parametrize("module", modules(), ids=lambda module: str(module.relative))
def test_a_package_imports_only_those_below_it(module: Module) -> None:
    """`storage` knows tables, not protocols; nothing below the centre knows the centre."""
    if module.package == "migrations":
        allowed = {"migrations"}
    else:
        allowed = {"migrations", *ORDER[: ORDER.index(module.package) + 1]}
    ours = {name.split(".")[0] for name in module.imports()} & {*ORDER, "migrations", "tests", "bench"}
    assert ours <= allowed

"""Design, rule 4: the listing is the table of contents; and what tests and source owe each other."""

import re
import subprocess

import pytest

from tests.house.source import ROOT, Module, has_code, modules

WITH_CODE = [module for module in modules() if has_code(module)]


@pytest.mark.parametrize("module", WITH_CODE, ids=lambda module: str(module.relative))
def test_every_module_has_its_test_file(module: Module) -> None:
    """`a/b/c.py` is tested in `tests/a/b/test_c.py`, so that nobody has to search."""
    relative = module.relative
    name = relative.parent.name if relative.name == "__init__.py" else relative.stem
    assert (ROOT / "tests" / relative.parent / f"test_{name}.py").is_file()


@pytest.mark.parametrize("module", modules(), ids=lambda module: str(module.relative))
def test_no_module_is_longer_than_five_hundred_lines(module: Module) -> None:
    """Look twice at 300, split at 500."""
    assert len(module.path.read_text().splitlines()) <= 500


def test_nothing_is_left_unfinished() -> None:
    """What is not done is an issue, not a comment in the source."""
    marks = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "NotImplemented" + "Error"])
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    files = (
        listed.stdout.split()
        if listed.returncode == 0
        else [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")]
    )
    left = [
        f"{name}:{number}"
        for name in files
        if name.endswith((".py", ".sql", ".toml", ".sh", ".js")) and (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), start=1)
        if re.search(rf"\b({marks})\b", line)
    ]
    assert left == []

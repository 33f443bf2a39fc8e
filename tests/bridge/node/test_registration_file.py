"""The registration file."""

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from appservice.registration.double_puppets import PuppetRegistrationSettings
from appservice.registration.namespaces import Namespaces
from appservice.registration.registration import RegistrationSettings, differences, document, example, make
from bridge.node.registration import EXAMPLE_HEAD, load, new_secrets, text_of, write, write_double_puppet
from bridge.text.yaml_text import yaml_text
from storage.errors import LocalError

WANTED = RegistrationSettings(
    "palaver", "http://127.0.0.1:7678", Namespaces("their.server", "kitchen.local", "_agent_")
)
ROOT = Path(__file__).parents[3]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_round_trip(tmp_path: Path) -> None:
    """Readable only by its owner, and without differences."""
    path = tmp_path / "registration.yaml"
    written = write(path, WANTED)
    assert load(path) == written
    assert differences(written, WANTED) == ()
    assert mode(path) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["registration.yaml"]


def test_rewriting_keeps_tokens(tmp_path: Path) -> None:
    """Unless new ones are requested; group permissions remain, others get none."""
    path = tmp_path / "registration.yaml"
    first = write(path, WANTED)
    path.chmod(0o644)
    moved = replace(WANTED, url="http://10.0.0.1:7678")
    second = write(path, moved)
    assert second == replace(first, url="http://10.0.0.1:7678")
    assert mode(path) == 0o640
    third = write(path, moved, new_tokens=True)
    assert third.secrets.as_token not in {first.secrets.as_token, third.secrets.hs_token}
    assert third.secrets.hs_token != first.secrets.hs_token
    assert load(path) == third


def test_secrets_are_random() -> None:
    """Including the sender."""
    made = [new_secrets() for _ in range(5)]
    assert len({token for one in made for token in (one.as_token, one.hs_token)}) == 10
    assert len({one.sender_localpart for one in made}) == 5


def test_example_file(tmp_path: Path) -> None:
    """It equals the generated one; its public tokens are neither used nor kept."""
    path = ROOT / "registration.yaml"
    assert path.read_text() == text_of(example(), EXAMPLE_HEAD)
    with pytest.raises(LocalError, match="placeholder"):
        load(path)
    copy = tmp_path / "registration.yaml"
    copy.write_text(path.read_text())
    with pytest.raises(LocalError, match="placeholder"):
        write(copy, WANTED)
    assert write(copy, WANTED, new_tokens=True) == load(copy)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"\xff", "not text"),
        (b"a: [", "Line 1"),
        (b"", "not a registration"),
        (b"id: palaver", "`as_token` is missing"),
        (b"#" * 100_001, "too large"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, text: bytes, why: str) -> None:
    """The file remains unchanged."""
    path = tmp_path / "registration.yaml"
    path.write_bytes(text)
    acts: tuple[Callable[[], object], ...] = (lambda: load(path), lambda: write(path, WANTED))
    for act in acts:
        with pytest.raises(LocalError, match=why):
            act()
    assert path.read_bytes() == text


def test_errors_contain_no_token(tmp_path: Path) -> None:
    """Whatever the problem."""
    path = tmp_path / "registration.yaml"
    secrets = new_secrets()
    path.write_text(yaml_text({**document(make(WANTED, secrets)), "id": "a/b", "url": 7}))
    with pytest.raises(LocalError) as refused:
        load(path)
    assert secrets.as_token not in str(refused.value)
    assert secrets.hs_token not in str(refused.value)


def test_unreadable_and_unwritable_paths(tmp_path: Path) -> None:
    """A sentence for each."""
    with pytest.raises(LocalError, match="There is no registration"):
        load(tmp_path / "nothing")
    with pytest.raises(LocalError, match="can't be written"):
        write(tmp_path / "nothing" / "registration.yaml", WANTED)
    with pytest.raises(LocalError, match="can't be read"):
        load(tmp_path)


def test_double_puppet_file(tmp_path: Path) -> None:
    """With its own kept tokens; the first registration is not accepted for it."""
    path, puppets = (
        tmp_path / "double-puppet.yaml",
        PuppetRegistrationSettings("palaver-double-puppet", "their.server"),
    )
    first = write_double_puppet(path, puppets)
    assert (load(path), mode(path)) == (first, 0o600)
    assert write_double_puppet(path, replace(puppets, id="other")) == replace(first, id="other")
    assert write_double_puppet(path, puppets, new_tokens=True).secrets.as_token != first.secrets.as_token
    other = tmp_path / "registration.yaml"
    kept = write(other, WANTED)
    with pytest.raises(LocalError, match="not a registration for double puppets"):
        write_double_puppet(other, puppets)
    assert load(other) == kept
    path.write_text("a: [")
    with pytest.raises(LocalError) as broken:
        write_double_puppet(path, puppets)
    assert "palaver registration --double-puppet" in broken.value.advice

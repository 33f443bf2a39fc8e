"""The user as whom Postgres runs."""

import os
import pwd

import pytest

from storage.embedded.home import choose_identity, name_of
from storage.errors import LocalError


def test_an_ordinary_user_is_not_changed() -> None:
    """It could not become another user, and does not need to."""
    assert choose_identity("nobody", euid=1000) is None
    assert choose_identity("no such user", euid=1000) is None


def test_root_uses_the_configured_user() -> None:
    """By name or number, with all its groups."""
    entry = pwd.getpwnam("nobody")
    for name in ("nobody", str(entry.pw_uid)):
        identity = choose_identity(name, euid=0)
        assert identity is not None
        assert (identity.name, identity.uid, identity.gid) == ("nobody", entry.pw_uid, entry.pw_gid)
        assert entry.pw_gid in identity.groups


def test_a_user_that_does_not_exist_is_refused() -> None:
    """Palaver creates no users."""
    with pytest.raises(LocalError) as refused:
        choose_identity("no such user", euid=0)
    assert refused.value.problem == (
        "The node runs as root, Postgres may not run as root, and there is no user no such user."
    )
    assert "database.run_as" in refused.value.advice


@pytest.mark.parametrize("name", ["root", "0"])
def test_root_itself_is_refused(name: str) -> None:
    """Postgres would refuse it later, with a less clear message."""
    with pytest.raises(LocalError) as refused:
        choose_identity(name, euid=0)
    assert refused.value.problem == "The node runs as root, and Postgres may not run as root."


def test_an_owner_without_name_is_shown_by_number() -> None:
    """As in a container that shares a volume."""
    assert name_of(os.geteuid()) == pwd.getpwuid(os.geteuid()).pw_name
    assert name_of(2_000_000_001) == "user 2000000001"

"""`palaver keys` while no node runs."""

import tomllib
from pathlib import Path

from bridge.config.agent_federation import AgentPeer
from federation.keys.local_keys import LocalKeyFiles
from tests.bridge.cli.conftest import Palaver


def test_before_the_first_start_there_are_no_keys(palaver: Palaver) -> None:
    """The command does not generate one."""
    for command in ("show", "rotate"):
        result = palaver("keys", command)
        assert (result.code, "palaver run" in result.err) == (1, True)
    assert not Path("data", "signing.key").exists()


def test_a_rotation_is_shown_and_stored(palaver: Palaver) -> None:
    """The old key with its expiry, and the new one as other nodes configure it. Private keys are never
    printed."""
    Path("data").mkdir()
    files = LocalKeyFiles(Path("data"))
    first = files.load_or_create()
    result = palaver("keys", "rotate", "--json")
    assert list(result.json["old_keys"]) == [first.current.key_id]
    again = palaver("keys", "show", "--json")
    assert again.json == result.json
    key = files.load_or_create().current.signing_key.verify_key
    line = f'signing_key = "{bytes(key).hex()}"'
    assert line in palaver("keys", "show").out
    AgentPeer.model_validate(
        {"node_id": "here", "profile": "cis-1.1", "url": "http://127.0.0.1:1", **tomllib.loads(line)}
    )
    assert files.current.read_text().split()[2] not in result.out + palaver("keys", "show").out

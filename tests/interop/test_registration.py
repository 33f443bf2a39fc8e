"""`palaver registration --check` against a real Synapse: each operator mistake, made on purpose."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import lasting_port
from tests.support.synapse import Synapse
from tests.support.synapse.fixtures import SynapseFactory

pytestmark = pytest.mark.interop
ROOT = Path(__file__).parents[2]


class Operator:
    """A directory with a configuration, and the commands that are run there."""

    def __init__(self, directory: Path, synapse: Synapse, **section: Any) -> None:
        directory.mkdir()
        self.file = directory / "registration.yaml"
        self._synapse = synapse
        self._config = directory / "palaver.toml"
        self._section = {"homeserver": synapse.url, "domain": synapse.server_name, **section}
        self.write()

    def write(self, *further: str, **changes: Any) -> None:
        """`further` are lines of other sections."""
        values = {**self._section, **changes}
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        lines = ['matrix_side = "appservice"', "[appservice]", *lines, *further]
        self._config.write_text("\n".join(lines))

    async def palaver(self, *words: str) -> tuple[int, Any]:
        """Run a command as a process that trusts the tests' authority."""
        code = "from bridge.cli import main; main()"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, *words, "--json", "-c", str(self._config),
            cwd=ROOT, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "SSL_CERT_FILE": str(self._synapse.trusted[0])},
        )  # fmt: skip
        out, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, json.loads(out)

    async def wrong(self) -> Sequence[str]:
        status, answer = await self.palaver("registration", "--check")
        assert status == (1 if answer.get("wrong") else 0), answer
        wrong: Sequence[str] = answer["wrong"]
        return wrong


async def test_each_mistake_has_its_own_error(make_synapse: SynapseFactory, tmp_path: Path) -> None:
    """Without a mistake there is none: Synapse has the file, reserves the names and reaches this node."""
    synapse = await make_synapse(start=False)
    port = lasting_port()
    right = Operator(tmp_path / "right", synapse, port=port)
    clashing = [
        Operator(tmp_path / name, synapse, id=name, user_prefix="_ghost_", port=lasting_port())
        for name in ("one", "two")
    ]
    for operator in (right, *clashing):
        status, _ = await operator.palaver("registration")
        assert status == 0
    synapse.appservices = [operator.file for operator in (right, *clashing)]
    await synapse.start()
    await synapse.settled()

    assert await right.wrong() == []
    # Its own user is there by now.
    assert await right.wrong() == []

    missing = Operator(tmp_path / "missing", synapse, port=lasting_port())
    await missing.palaver("registration")
    (not_installed,) = await missing.wrong()
    assert "does not know the as_token (M_UNKNOWN_TOKEN)" in not_installed

    right.write(domain="other.server")
    *differences, elsewhere = await right.wrong()
    assert len(differences) == 9
    assert f"The homeserver's server name is {synapse.server_name}" in elsewhere

    right.write(port=lasting_port(), url=f"http://127.0.0.1:{port}")
    (unreachable,) = await right.wrong()
    assert f"cannot reach this node at http://127.0.0.1:{port}" in unreachable

    for operator in clashing:
        (clash,) = await operator.wrong()
        assert "refuses to register @_ghost_palaver" in clash
        assert "reserves users that begin with _ghost_ too" in clash

    right.write()
    text = right.file.read_text()
    # One that begins with a digit stands in quotes.
    right.file.write_text(re.sub('(hs_token: "?)', r"\1edited-", text))
    (edited,) = await right.wrong()
    assert "refuses the homeserver's request (status 403)" in edited
    right.file.write_text(text)
    assert await right.wrong() == []
    await right.palaver("registration", "--new-tokens")
    (new_tokens,) = await right.wrong()
    assert "does not know the as_token" in new_tokens


async def test_names_of_offices_must_be_reserved(make_synapse: SynapseFactory, tmp_path: Path) -> None:
    """In the file, and in the homeserver's copy of it: one error for either, and only if offices are
    configured. Tokens are not changed."""
    synapse = await make_synapse(start=False)
    operator = Operator(tmp_path / "guest", synapse, port=lasting_port())
    await operator.palaver("registration")
    new = operator.file.read_text()
    head, reserved, tail = new.partition("    - exclusive: true\n      regex: ^#office-")
    assert reserved
    operator.file.write_text(head + tail.partition("\n")[2])
    synapse.appservices = [operator.file]
    await synapse.start()
    await synapse.settled()
    assert await operator.wrong() == []

    operator.write("[offices]", "enabled = true")
    (old_file,) = await operator.wrong()
    assert "does not reserve the aliases of offices" in old_file
    assert "`palaver registration`, which keeps its tokens" in old_file
    await operator.palaver("registration")
    assert operator.file.read_text() == new
    (old_copy,) = await operator.wrong()
    assert "The homeserver's copy of the registration" in old_copy
    assert "restart the homeserver" in old_copy
    await synapse.restart()
    assert await operator.wrong() == []

"""`GET /_matrix/key/v2/query/{serverName}` and `POST /_matrix/key/v2/query`."""

import json
from typing import Any

import pytest

from federation.keys.key_documents import KeyDocument, NotaryKeys, parse_key_document
from federation.matrix.signatures import VerifyKey
from tests.federation.http.key_nodes import key_pair
from tests.federation.nodes import keys_of, now_ms
from tests.support.postgres import Server

PATH = "/_matrix/key/v2/query"


def proves(answer: Any, server: str, notary: str) -> bool:
    """Check the response as the requester does."""
    [document] = answer["server_keys"]
    key = keys_of(notary).current
    vouching = NotaryKeys(notary, {key.key_id: VerifyKey(bytes(key.signing_key.verify_key), now_ms())})
    believed = parse_key_document(document, server, now_ms(), vouching)
    assert isinstance(believed, KeyDocument), believed
    return [one.key_id for one in believed.keys] == [keys_of(server).current.key_id]


async def test_requests_need_no_signature(postgres_server: Server, migrated_template: str) -> None:
    """The response has keys of other servers and of this one; the requester may not have any key yet."""
    async with key_pair(postgres_server, migrated_template) as pair:
        us, other = pair.asked.name, pair.asking.name
        for path in (f"{PATH}/{other}", f"{PATH}/{other}/ed25519:test", f"{PATH}/{other}/"):
            status, answer = await pair.ask("GET", f"{path}?minimum_valid_until_ts={now_ms()}")
            assert status == 200
            assert proves(answer, other, us)
        status, answer = await pair.ask("GET", f"{PATH}/{us}")
        assert proves(answer, us, us)
        question = {"server_keys": {other: {"ed25519:test": {"minimum_valid_until_ts": now_ms()}}}}
        status, answer = await pair.ask("POST", PATH, json.dumps(question).encode())
        assert status == 200
        assert proves(answer, other, us)


async def test_an_unreachable_server_has_an_empty_list(postgres_server: Server, migrated_template: str) -> None:
    """It is never a 404."""
    async with key_pair(postgres_server, migrated_template) as pair:
        assert await pair.ask("GET", f"{PATH}/127.0.0.1:1") == (200, {"server_keys": []})


@pytest.mark.parametrize(
    ("method", "path", "body", "errcode"),
    [
        ("GET", "/a%20b", None, "M_INVALID_PARAM"),
        ("GET", "/a.test?minimum_valid_until_ts=soon", None, "M_INVALID_PARAM"),
        ("POST", "", b"", "M_NOT_JSON"),
        ("POST", "", b"{", "M_NOT_JSON"),
        ("POST", "", b"[]", "M_BAD_JSON"),
        ("POST", "", b'{"server_keys":{"a b":{}}}', "M_INVALID_PARAM"),
        ("POST", "", b'{"server_keys":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, "M_NOT_JSON"),
    ],
)
async def test_invalid_requests_are_refused(
    postgres_server: Server, migrated_template: str, method: str, path: str, body: bytes | None, errcode: str
) -> None:
    """With a 400, never a 500."""
    async with key_pair(postgres_server, migrated_template) as pair:
        status, answer = await pair.ask(method, PATH + path, body)
        assert (status, answer["errcode"]) == (400, errcode)

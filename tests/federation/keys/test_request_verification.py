"""Server-server API, "Request Authentication", on the receiving side."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.client.requests import authorization
from federation.keys.request_verification import Claim, SignedRequest, parse_claim, parse_request, verify_request
from federation.keys.server_keys import LocalKey
from federation.matrix.canonical_json import encode
from federation.matrix.errors import MatrixError
from federation.matrix.signatures import VerifyKey
from tests.support.server_keys import DAY, NOW, key, public

US, THEM = "us.test", "a.test"
KEY, OTHER = key("1"), key("2")
KEYS = {KEY.key_id: VerifyKey(public(KEY), NOW + DAY)}


def header(
    method: str = "PUT",
    uri: str = "/_matrix/a",
    body: bytes | None = b"{}",
    origin: str = THEM,
    destination: str = US,
    signer: LocalKey = KEY,
) -> str:
    return authorization(method, uri, origin, destination, body, signer)


def read(
    *headers: str, method: str = "PUT", uri: str = "/_matrix/a", body: bytes = b"{}", allowed: bool = True
) -> SignedRequest:
    return parse_request(parse_claim(headers, US, lambda _: allowed), method, uri, body, US)


def refused(*headers: str, keys: Any = KEYS, **request: Any) -> tuple[int, str, str]:
    with pytest.raises(MatrixError) as refusal:
        verify_request(read(*headers, **request), keys)
    return refusal.value.status, refusal.value.errcode, refusal.value.text


def test_a_valid_request() -> None:
    """Its origin and its content."""
    body = encode({"pdus": [], "x": {"ä": 1}})
    request = read(header(body=body), body=body)
    verify_request(request, KEYS)
    assert request.claim.origin == THEM
    assert request.claim.key_ids == ["ed25519:1"]
    assert request.content == {"pdus": [], "x": {"ä": 1}}


def test_a_get_has_no_content() -> None:
    """Its body is not signed and is ignored."""
    get = header("GET", body=None)
    for body in (b"", b'{"a": 1}', b"nonsense"):
        request = read(get, method="GET", body=body)
        verify_request(request, KEYS)
        assert request.content is None


def test_the_canonical_form_of_the_body_is_verified() -> None:
    """Blanks and the order of keys do not matter."""
    request = read(header(body=b'{"a":1,"b":"\xc3\xa4"}'), body=b' { "b" : "\\u00e4", "a":1 }\n')
    verify_request(request, KEYS)


@pytest.mark.parametrize("body", [b'{"a":1.5}', b'{"a":36893488147419103232}', b'{"a":1e+22}'])
def test_numbers_of_old_room_versions_are_verified(body: bytes) -> None:
    """A transaction may contain events of room version 5, with floats and large integers."""
    verify_request(read(header(body=body), body=body), KEYS)


def test_a_missing_destination_is_this_server() -> None:
    """Servers before v1.3 send none, but sign it."""
    without = header().replace(f'destination="{US}",', "")
    assert "destination" not in without
    verify_request(read(without), KEYS)
    elsewhere = header(destination="b.test").replace('destination="b.test",', "")
    assert refused(elsewhere)[:2] == (401, "M_UNAUTHORIZED")


@pytest.mark.parametrize(
    ("headers", "status", "errcode", "text"),
    [
        ([], 401, "M_UNAUTHORIZED", "no X-Matrix"),
        (["Bearer token"], 401, "M_UNAUTHORIZED", "no X-Matrix"),
        (["X-Matrix nonsense"], 401, "M_UNAUTHORIZED", "without a value"),
        ([header(destination="b.test")], 401, "M_UNAUTHORIZED", "addressed to another server"),
        ([header(origin=US)], 403, "M_FORBIDDEN", "to itself"),
        ([header(), header(origin="b.test")], 401, "M_UNAUTHORIZED", "contradict"),
        ([header(), header(uri="/_matrix/b")], 401, "M_UNAUTHORIZED", "two signatures"),
        ([header(uri="/_matrix/b")], 401, "M_UNAUTHORIZED", "key ed25519:1 of a.test is wrong"),
        ([header(method="POST")], 401, "M_UNAUTHORIZED", "is wrong"),
        ([header(body=b'{"a":1}')], 401, "M_UNAUTHORIZED", "is wrong"),
        ([header(body=None)], 401, "M_UNAUTHORIZED", "is wrong"),
        ([header(signer=key("1", "other"))], 401, "M_UNAUTHORIZED", "is wrong"),
        ([header(signer=OTHER)], 401, "M_UNAUTHORIZED", "was found for ed25519:2"),
        ([header().replace("ed25519:1", "rsa:1")], 401, "M_UNAUTHORIZED", "did not sign"),
        ([header().replace('sig="', 'sig="AA')], 401, "M_UNAUTHORIZED", "is wrong"),
    ],
)
def test_refusals(headers: list[str], status: int, errcode: str, text: str) -> None:
    """401 for a missing or invalid signature, 403 for a server that may not federate."""
    result = refused(*headers)
    assert result[:2] == (status, errcode)
    assert text in result[2]


def test_servers_that_may_not_federate_are_refused_first() -> None:
    """Before the body is read."""
    with pytest.raises(MatrixError, match=r"403 M_FORBIDDEN: .*a\.test"):
        parse_claim([header()], US, lambda _: False)


def test_all_signatures_by_known_keys_must_be_valid() -> None:
    """One header for each key; signatures by unknown keys are skipped."""
    both = [header(), header(signer=OTHER)]
    verify_request(read(*both), KEYS)
    known = {**KEYS, OTHER.key_id: VerifyKey(public(OTHER), NOW + DAY)}
    verify_request(read(*both), known)
    assert "ed25519:2" in refused(header(), header(signer=OTHER, uri="/b"), keys=known)[2]


@pytest.mark.parametrize(
    ("body", "errcode"),
    [
        (b"", "M_NOT_JSON"),
        (b"nonsense", "M_NOT_JSON"),
        (b'{"a": NaN}', "M_NOT_JSON"),
        (b'{"a": "\\ud800"}', "M_NOT_JSON"),
        (b"\xff", "M_NOT_JSON"),
        (b"[]", "M_BAD_JSON"),
        (b"null", "M_BAD_JSON"),
        (b'{"a":' * 950 + b"1" + b"}" * 950, "M_BAD_JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "M_NOT_JSON"),
    ],
)
def test_a_body_that_is_no_object_is_a_bad_request(body: bytes, errcode: str) -> None:
    """ "a (potentially empty) JSON object" """
    assert refused(header(), body=body)[:2] == (400, errcode)


def test_a_too_deep_event_does_not_invalidate_the_signature() -> None:
    """Only the event is dropped; the transaction is authentic."""
    body = b'{"pdus":[' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"]}"
    verify_request(read(header(body=body), body=body), KEYS)


@given(
    body=st.binary(),
    # aiohttp decodes invalid bytes of the target as lone surrogates.
    uri=st.text(st.characters() | st.just("\udcff")),
    method=st.sampled_from(["GET", "PUT", "POST", "HEAD", "x"]),
)
def test_any_input_raises_matrix_error_only(body: bytes, uri: str, method: str) -> None:
    """No random input is authentic."""

    def check() -> None:
        verify_request(parse_request(Claim(THEM, {KEY.key_id: "AAAA"}), method, uri, body, US), KEYS)

    with pytest.raises(MatrixError, match=r"40[01] M_"):
        check()

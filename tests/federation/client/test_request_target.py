"""Path and query of a request."""

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from federation.client.requests import request_target

TEXT = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text not in {".", ".."})


def test_segments_are_encoded_and_the_template_stays() -> None:
    """`!` and `:` are encoded, since servers treat them differently."""
    target = request_target(
        "/_matrix/federation/v1/make_join/{roomId}/{userId}",
        query=[("ver", "10"), ("ver", "org.matrix x&y")],
        roomId="!a/b:c.test",
        userId="@ä:c.test",
    )
    assert target.template == "/_matrix/federation/v1/make_join/{roomId}/{userId}"
    assert target.uri == (
        "/_matrix/federation/v1/make_join/%21a%2Fb%3Ac.test/%40%C3%A4%3Ac.test?ver=10&ver=org.matrix%20x%26y"
    )


@given(segment=TEXT, name=TEXT, value=TEXT)
def test_the_target_is_sent_as_it_was_signed(segment: str, name: str, value: str) -> None:
    """aio-libs/aiohttp#2188: a client that quotes again sends a target that was not signed."""
    uri = request_target("/a/{segment}/b", query=[(name, value)], segment=segment).uri
    parts = urlsplit(uri)
    assert [unquote(part) for part in parts.path.split("/")] == ["", "a", segment, "b"]
    assert parse_qsl(parts.query) == [(name, value)]
    assert URL(f"https://host:1{uri}", encoded=True).raw_path_qs == uri


@pytest.mark.parametrize("segment", ["", ".", ".."])
def test_dot_segments_are_refused(segment: str) -> None:
    """Proxies resolve these, escaped or not; callers must refuse such ids."""
    with pytest.raises(AssertionError):
        request_target("/a/{segment}", segment=segment)


def test_the_parameters_must_match_the_template() -> None:
    """Otherwise a placeholder would be sent."""
    with pytest.raises(AssertionError):
        request_target("/a/{b}")
    with pytest.raises(AssertionError):
        request_target("/a", b="c")

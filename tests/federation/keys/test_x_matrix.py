import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.keys.x_matrix import (
    MAX_CHARACTERS,
    MAX_HEADERS,
    BadAuthorization,
    XMatrix,
    is_addressed_to,
    parse,
    parse_all,
    render,
    signed_object,
)

EXPECTED = XMatrix(origin="a.example:8448", key="ed25519:x", signature="c2ln", destination="b.example")


@pytest.mark.parametrize(
    "header",
    [
        'X-Matrix origin="a.example:8448",destination="b.example",key="ed25519:x",sig="c2ln"',
        "X-Matrix origin=a.example:8448,destination=b.example,key=ed25519:x,sig=c2ln",
        'x-matrix  ORIGIN = "a.example:8448" ,\tDestination="b.example" , Key="ed25519:x",SIG="c2ln"',
        'X-MATRIX sig="c2ln",key="ed25519:x",destination="b.example",origin="a.example:8448"',
        'X-Matrix origin="a.example:8448",new="a \\"b, c",destination="b.example",key="ed25519:x",sig="c2ln"',
        'X-Matrix origin="a\\.example:8448",destination="b.example",key="ed25519\\:x",sig="c2\\ln"',
        "X-Matrix ,, origin=a.example:8448,,destination=b.example, ,key=ed25519:x,sig=c2ln,",
        '\tX-Matrix\torigin="a.example:8448",destination="b.example",key="ed25519:x",sig="c2ln"'.strip(),
    ],
)
def test_all_forms_that_servers_send_are_parsed(header: str) -> None:
    """Unquoted values with colons, blanks and tabs, any order and case, escapes, unknown parameters."""
    assert parse(header) == EXPECTED


def test_the_signature_of_a_header_is_not_cached() -> None:
    """And a signature is not searched inside other quoted values."""
    usual = 'X-Matrix origin="a",destination="b",key="ed25519:x",sig="{}"'
    for made in ("c2ln", "b3RoZXI", "c2ln"):
        assert parse(usual.format(made)) == XMatrix("a", "ed25519:x", made, "b")
    for key, behind in (("ed25519:y", ""), ("ed25519:x", ',new="1"')):
        header = f'X-Matrix origin="a",key="{key}",sig="c2ln"{behind},destination="c"'
        assert parse(header) == XMatrix("a", key, "c2ln", "c")
    for within in (",sig=", 'sig=\\"b3RoZXI', "b3RoZXI"):
        header = f'X-Matrix new="{within}",origin="a",key="ed25519:x",sig="c2ln",old="{within}"'
        assert parse(header) == XMatrix("a", "ed25519:x", "c2ln")
    with pytest.raises(BadAuthorization, match="names a parameter twice"):
        parse('X-Matrix sig="b3RoZXI",origin="a",key="ed25519:x",sig="c2ln"')


def test_a_missing_destination_is_accepted() -> None:
    """Servers before v1.3 of the specification send none."""
    assert parse('X-Matrix origin="a",key="ed25519:x",sig="c2ln"') == XMatrix("a", "ed25519:x", "c2ln")


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("", "does not begin"),
        ("X-Matrix", "does not begin"),
        ("Bearer token", "does not begin"),
        ('X-Matrixorigin="a"', "does not begin"),
        ("X-Matrix key=ed25519:x,sig=c2ln", "has no origin"),
        ("X-Matrix origin=a,sig=c2ln", "has no key"),
        ("X-Matrix origin=a,key=ed25519:x", "has no sig"),
        ("X-Matrix origin=a,signature=c2ln,key=ed25519:x", "has no sig"),
        ("X-Matrix origin=a,origin=b,key=ed25519:x,sig=c2ln", "names a parameter twice"),
        ("X-Matrix origin=a,ORIGIN=b,key=ed25519:x,sig=c2ln", "names a parameter twice"),
        ('X-Matrix origin="",key=ed25519:x,sig=c2ln', "an invalid origin"),
        ('X-Matrix origin="a b",key=ed25519:x,sig=c2ln', "an invalid origin"),
        ('X-Matrix origin="a",key=x,sig=c2ln', "an invalid key"),
        ('X-Matrix origin="a",key=ed25519:x,sig="c2 ln"', "an invalid sig"),
        ('X-Matrix origin="a",destination="",key=ed25519:x,sig=c2ln', "an invalid destination"),
        ('X-Matrix origin="a" key=ed25519:x,sig=c2ln', "lacks a comma"),
        ("X-Matrix origin=a b,key=ed25519:x,sig=c2ln", "lacks a comma"),
        ('X-Matrix origin="a,key=ed25519:x,sig=c2ln', "missing or unterminated"),
        ('X-Matrix origin=a"b",key=ed25519:x,sig=c2ln', "lacks a comma"),
        ("X-Matrix origin=,key=ed25519:x,sig=c2ln", "missing or unterminated"),
        ("X-Matrix origin", "without a value"),
        ("X-Matrix =a", "not a parameter"),
        ("X-Matrix origin=" + "a" * MAX_CHARACTERS, "is too long"),
    ],
)
def test_malformed_headers_are_refused_with_the_reason(header: str, problem: str) -> None:
    """401 `M_UNAUTHORIZED`, without repeating what was sent."""
    with pytest.raises(BadAuthorization, match=problem) as refused:
        parse(header)
    assert (refused.value.status, refused.value.errcode) == (401, "M_UNAUTHORIZED")


@given(st.one_of(st.text(), st.text(st.sampled_from('xX-Matrix \t,="\\:aorigkeysd[]%\0\udc80é')), st.binary()))
def test_any_input_raises_the_declared_error_only(header: str | bytes) -> None:
    """Headers are decoded with surrogate escapes."""
    text = header.decode("utf-8", "surrogateescape") if isinstance(header, bytes) else header
    for candidate in (text, "X-Matrix " + text, "X-Matrix origin=a,key=ed25519:x,sig=s," + text):
        try:
            found = parse(candidate)
        except BadAuthorization:
            continue
        assert found.origin
        assert found.key
        assert found.signature


labels = st.text(st.sampled_from("abcxyzABC019-"), min_size=1, max_size=20)
server_names = st.one_of(
    st.lists(labels, min_size=1, max_size=4).map(".".join),
    st.tuples(labels, st.integers(0, 65535)).map(lambda pair: f"{pair[0]}:{pair[1]}"),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]:8448"),
)
authorizations = st.builds(
    XMatrix,
    origin=server_names,
    key=st.text(st.sampled_from("abcAZ019_"), min_size=1, max_size=20).map("ed25519:{}".format),
    signature=st.text(st.sampled_from("abcXYZ019+/"), min_size=1, max_size=86),
    destination=st.none() | server_names,
)


@given(authorizations)
def test_a_rendered_header_is_parsed(authorization: XMatrix) -> None:
    """The strictest form: one blank, lower-case names, everything quoted, no backslash."""
    header = render(authorization)
    assert parse(header) == authorization
    assert header.startswith('X-Matrix origin="')
    assert header.count(" ") == 1
    assert "\\" not in header


@given(authorizations, st.data())
def test_quoting_blanks_and_order_do_not_matter(authorization: XMatrix, data: st.DataObject) -> None:
    pairs = {"origin": authorization.origin, "key": authorization.key, "sig": authorization.signature}
    if authorization.destination is not None:
        pairs["destination"] = authorization.destination
    blanks = st.text(st.sampled_from(" \t"), max_size=2)

    def write(name: str, value: str) -> str:
        name = data.draw(st.sampled_from([name, name.upper(), name.title()]))
        escaped = '"' + "".join(data.draw(st.sampled_from(["", "\\"])) + letter for letter in value) + '"'
        return f"{data.draw(blanks)}{name}={data.draw(st.sampled_from([value, escaped]))}{data.draw(blanks)}"

    written = [write(name, pairs[name]) for name in data.draw(st.permutations(sorted(pairs)))]
    assert parse("X-Matrix " + ",".join(written)) == authorization


def test_several_headers_sign_for_one_server() -> None:
    """A server that rotates its key may sign with both; other schemes are ignored."""
    old, new = XMatrix("a", "ed25519:old", "b2xk", "b"), XMatrix("a", "ed25519:new", "bmV3", "b")
    assert parse_all(["Bearer x", render(old), render(new)]) == (old, new)
    assert parse_all(["Bearer x", "", "Basic eA=="]) == ()


def test_contradicting_headers_are_refused() -> None:
    """Parsers that take the first and parsers that take the last would see two different servers."""
    with pytest.raises(BadAuthorization, match="contradict"):
        parse_all([render(XMatrix("a", "ed25519:x", "c2ln")), render(XMatrix("b", "ed25519:x", "c2ln"))])


def test_the_number_of_headers_is_limited() -> None:
    """Each costs a signature check."""
    with pytest.raises(BadAuthorization, match="too many"):
        parse_all([render(XMatrix("a", "ed25519:x", "c2ln"))] * (MAX_HEADERS + 1))


def test_the_signed_object_has_content_only_with_a_body() -> None:
    """Absent for GET; present, even as `{}`, for PUT and POST. The URI is used verbatim."""
    uri = "/_matrix/federation/v1/x/%21a%3Ab?c=%7B"
    assert signed_object("GET", uri, "a", "b") == {"method": "GET", "uri": uri, "origin": "a", "destination": "b"}
    assert signed_object("PUT", uri, "a", "b", {})["content"] == {}


def test_a_request_to_another_server_is_recognised() -> None:
    """A wrong destination means a replay; a missing one, an old server."""
    assert is_addressed_to(EXPECTED, "b.example")
    assert not is_addressed_to(EXPECTED, "c.example")
    assert is_addressed_to(XMatrix("a", "ed25519:x", "c2ln"), "c.example")

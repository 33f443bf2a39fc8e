"""The table of what servers do to each other."""

import importlib
import pkgutil

import pytest
from aiohttp import web

from federation.http import endpoints
from federation.peers.acts import ACTS, OTHER, Act, Kind, Recorded, act_of

FEDERATION = "/_matrix/federation"


def served() -> list[tuple[str, str]]:
    """Method and template of every route of ours that is for other servers."""
    modules = [
        importlib.import_module(f"{endpoints.__name__}.{found.name}")
        for found in pkgutil.iter_modules(endpoints.__path__)
    ]
    app = web.Application()
    for module in modules:
        app.add_routes(module.ROUTES)
    return [
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/_matrix/federation/")
    ]


@pytest.mark.parametrize(("method", "template"), served())
def test_every_endpoint_for_other_servers_has_a_name(method: str, template: str) -> None:
    """An endpoint that nobody named would be recorded as `other`, and limited like a query."""
    assert act_of(method, template) not in {None, OTHER}


@pytest.mark.parametrize(
    ("method", "template", "name"),
    [
        ("PUT", f"{FEDERATION}/v1/send/{{txn_id}}", "transaction"),
        ("PUT", f"{FEDERATION}/v1/send/{{txnId}}", "transaction"),
        ("GET", f"{FEDERATION}/v1/make_join/{{room_id}}/{{user_id}}", "make_join"),
        ("GET", f"{FEDERATION}/v1/make_join/{{roomId}}/{{userId}}", "make_join"),
        ("HEAD", f"{FEDERATION}/v1/event/{{event_id}}", "event"),
        ("GET", "/_matrix/key/v2/query/{serverName}", "notary_query"),
        ("POST", f"{FEDERATION}/v1/something/else", "other"),
    ],
)
def test_a_place_is_a_place_whatever_it_is_called(method: str, template: str, name: str) -> None:
    """We write templates in our way and the specification in its; HEAD is a GET."""
    act = act_of(method, template)
    assert act is not None
    assert act.name == name


def test_what_is_not_between_servers_is_no_act() -> None:
    """Clients, health and metrics."""
    for template in ("/health/live", "/_matrix/client/v3/sync", "/_cis/v1/event/receive", "/"):
        assert act_of("GET", template) is None


def test_what_changes_something_is_recorded_before_it_is_answered() -> None:
    """Everything that others send into rooms; a transaction in its own commit."""
    by_name = {act.name: act.recorded for act in ACTS.values()}
    at_once = {name for name, recorded in by_name.items() if recorded is Recorded.AT_ONCE}
    assert at_once == {"send_join", "send_leave", "send_knock", "invite", "third_party_invite"}
    assert by_name["transaction"] is Recorded.BY_ITSELF


def test_one_name_is_one_act() -> None:
    """Whatever the version of the endpoint is: whoever searches for a name finds them all."""
    acts: dict[str, set[Act]] = {}
    for act in ACTS.values():
        acts.setdefault(act.name, set()).add(act)
    assert all(len(same) == 1 for same in acts.values())


def test_what_needs_no_signature_is_limited_by_address() -> None:
    """These are all that a stranger may ask for."""
    assert {act.name for act in ACTS.values() if act.kind is Kind.OPEN} == {
        "server_keys",
        "notary_query",
        "version",
        "openid_userinfo",
        "delegation",
        "third_party_bind",
    }

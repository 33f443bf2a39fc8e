"""The table of actions."""

import importlib
import pkgutil

import pytest
from aiohttp import web

from federation.http import endpoints
from federation.peers.actions import ACTIONS, OTHER, Action, AuditTiming, RequestKind, action_of

FEDERATION = "/_matrix/federation"


def served() -> list[tuple[str, str]]:
    """Method and template of every served federation endpoint."""
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
def test_every_federation_endpoint_has_an_action(method: str, template: str) -> None:
    """Otherwise it would be recorded as `other`, and limited like a query."""
    assert action_of(method, template) not in {None, OTHER}


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
def test_names_of_path_parameters_do_not_matter(method: str, template: str, name: str) -> None:
    """Our templates and the specification's name them differently; HEAD is a GET."""
    action = action_of(method, template)
    assert action is not None
    assert action.name == name


def test_other_requests_have_no_action() -> None:
    """Clients, health and metrics."""
    for template in ("/health/live", "/_matrix/client/v3/sync", "/_cis/v1/event/receive", "/"):
        assert action_of("GET", template) is None


def test_changes_are_recorded_before_the_response() -> None:
    """Everything that other servers send into rooms; a transaction in its own commit."""
    by_name = {action.name: action.recorded for action in ACTIONS.values()}
    at_once = {name for name, recorded in by_name.items() if recorded is AuditTiming.IMMEDIATE}
    assert at_once == {"send_join", "send_leave", "send_knock", "invite", "third_party_invite"}
    assert by_name["transaction"] is AuditTiming.WITH_COMMIT


def test_a_name_stands_for_one_action() -> None:
    """For every version of an endpoint, so that a search for a name finds all of them."""
    acts: dict[str, set[Action]] = {}
    for action in ACTIONS.values():
        acts.setdefault(action.name, set()).add(action)
    assert all(len(same) == 1 for same in acts.values())


def test_the_actions_without_authentication() -> None:
    """These are all requests that need no signature."""
    assert {action.name for action in ACTIONS.values() if action.kind is RequestKind.OPEN} == {
        "server_keys",
        "notary_query",
        "version",
        "openid_userinfo",
        "delegation",
        "third_party_bind",
    }

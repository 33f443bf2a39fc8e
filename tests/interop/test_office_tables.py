"""The rows of the protocol between clients and servers of offices, and of its open questions, each with the
tests that check it on the wire."""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, SERVER_EVENTS, UPDATES
from tests.support.smcp.walk import STEPS

ROOT = Path(__file__).parents[2]

_SERVER: Final = "tests/bridge/connectors/offices/server/test_server.py::"
_PUBLISHED: Final = "tests/interop/test_published_offices.py::"
_KILL: Final = "tests/interop/test_office_kill.py::"
_SHARED: Final = "tests/bridge/connectors/offices/federated/test_shared_offices.py::"
_ACROSS: Final = "tests/interop/test_offices_across.py::"
_HERE: Final = "tests/interop/test_office_decisions.py::"
_ERRORS: Final = "tests/interop/test_office_errors.py::"
# A step of `STEPS`, which `test_published_offices.py::test_a_step` takes with each published version.
_STEP: Final = "step "

Table = Mapping[str, tuple[str, ...]]

HANDSHAKE: Final[Table] = {
    "parameter absent": (f"{_HERE}test_a_handshake_is_refused",),
    "not three integers": (f"{_HERE}test_a_handshake_is_refused",),
    "incompatible": (f"{_HERE}test_a_handshake_is_refused", f"{_HERE}test_another_line_of_versions_is_refused"),
    "incompatible, direct WebSocket": (f"{_HERE}test_a_handshake_is_refused",),
}

EVENTS: Final[Table] = {
    "client:tool_call": (f"{_STEP}walk_call", f"{_STEP}walk_calls_at_once", f"{_STEP}walk_large"),
    "client:get_config": (f"{_STEP}walk_config",),
    "client:get_tools": (f"{_STEP}walk_tools",),
    "client:get_desktop": (f"{_STEP}walk_desktop",),
    "client:get_resources": (f"{_STEP}walk_resources",),
    "client:get_skills": (f"{_STEP}walk_skills",),
    "client:get_skill": (f"{_STEP}walk_skills",),
    "client:get_blob": (f"{_STEP}walk_get_blob",),
    "client:put_blob": (f"{_STEP}walk_put_blob", f"{_HERE}test_an_older_computer_is_sent_no_upload"),
    "server:join_office": (f"{_STEP}walk_join_again", f"{_SERVER}test_a_malformed_join_names_the_field"),
    "server:leave_office": (f"{_STEP}walk_leave",),
    "server:list_room": (f"{_STEP}walk_list",),
    "server:update_config": (f"{_STEP}walk_notifications",),
    "server:update_tool_list": (f"{_STEP}walk_notifications",),
    "server:update_desktop": (f"{_STEP}walk_notifications",),
    "server:update_skills": (f"{_STEP}walk_notifications",),
    "server:tool_call_cancel": (f"{_STEP}walk_cancel",),
    "notify:enter_office": (f"{_STEP}walk_leave", f"{_SERVER}test_other_members_are_notified_of_joins_and_leaves"),
    "notify:leave_office": (f"{_STEP}walk_leave", f"{_STEP}walk_disconnect"),
    "notify:update_config": (f"{_STEP}walk_notifications",),
    "notify:update_tool_list": (f"{_STEP}walk_notifications",),
    "notify:update_desktop": (f"{_STEP}walk_notifications",),
    "notify:update_skills": (f"{_STEP}walk_notifications",),
    "notify:tool_call_cancel": (f"{_STEP}walk_cancel",),
}

_REACHES: Final = f"{_ERRORS}test_an_error_of_a_computer_reaches_a_published_agent"
ERRORS: Final[Table] = {
    "404 not found": (f"{_STEP}walk_unknown_computer", _REACHES),
    "4006 / 4007 upstream authorisation required / failed": (
        f"{_ERRORS}test_a_required_authorisation_is_in_the_result",
    ),
    "4008 version": (f"{_HERE}test_a_handshake_is_refused",),
    "4014 server (or skill) unknown": (f"{_STEP}walk_resources", _REACHES),
    "4015 capability missing": (_REACHES,),
    "4016 bad skill name": (f"{_STEP}walk_skills", _REACHES),
    "4017 skill resource": (f"{_STEP}walk_skills", _REACHES),
    "4018 blob read": (f"{_STEP}walk_get_blob", _REACHES),
    "4019 blob write": (_REACHES,),
    "400 401 403 408 500, 4001–4005, 4101 4102 4103 4104": (
        f"{_ERRORS}test_an_unknown_code_ends_the_call_at_once",
        f"{_SERVER}test_the_profile_spec_uses_the_protocols_codes",
    ),
}

DECISIONS: Final[Table] = {
    "accepted protocol versions": (
        f"{_HERE}test_an_earlier_version_is_accepted",
        f"{_HERE}test_another_line_of_versions_is_refused",
        f"{_HERE}test_strict_mode_accepts_one_version",
    ),
    "version on WebSocket scope": (f"{_HERE}test_a_handshake_is_refused",),
    "credential": (
        f"{_SERVER}test_a_connection_without_a_valid_token_is_refused",
        f"{_SERVER}test_unversioned_clients_may_send_the_token_in_a_header",
        f"{_SERVER}test_a_token_limits_roles_and_offices",
        f"{_PUBLISHED}test_a_wrong_token_is_refused",
    ),
    "second Agent in an office": (
        f"{_SERVER}test_a_client_whose_join_is_refused_receives_nothing",
        f"{_PUBLISHED}test_a_second_agent_gets_an_error_at_its_first_call",
    ),
    "same Agent joins same office again": (f"{_STEP}walk_join_again", f"{_HERE}test_an_agent_joins_its_office_again"),
    "Agent in A joins B": (f"{_HERE}test_an_agent_leaves_before_it_joins_another_office",),
    "role changes on one connection": (f"{_HERE}test_a_connection_has_one_role",),
    "Computer joins another office": (
        f"{_SERVER}test_a_computer_can_change_its_office",
        f"{_HERE}test_a_computer_that_cannot_move_stays",
    ),
    "name uniqueness": (
        f"{_HERE}test_names_are_unique_in_one_office",
        f"{_PUBLISHED}test_a_name_belongs_to_one_computer",
    ),
    "refused join": (f"{_SERVER}test_a_client_whose_join_is_refused_receives_nothing",),
    "malformed join": (f"{_SERVER}test_a_malformed_join_names_the_field",),
    "leave of an office one is not in": (f"{_HERE}test_a_former_member_receives_nothing",),
    "disconnect, server stop": (
        f"{_STEP}walk_disconnect",
        f"{_SERVER}test_all_members_leave_when_the_server_stops",
        f"{_KILL}test_a_node_is_killed",
    ),
    "call before joining": (
        f"{_SERVER}test_isolation_is_enforced_with_an_immediate_answer",
        f"{_SERVER}test_the_profile_spec_uses_the_protocols_codes",
    ),
    "cross-office client:*": (
        f"{_SERVER}test_isolation_is_enforced_with_an_immediate_answer",
        f"{_SERVER}test_the_profile_spec_uses_the_protocols_codes",
    ),
    "unknown Computer": (
        f"{_STEP}walk_unknown_computer",
        f"{_SERVER}test_isolation_is_enforced_with_an_immediate_answer",
    ),
    "target is not a Computer, caller is not an Agent": (
        f"{_SERVER}test_isolation_is_enforced_with_an_immediate_answer",
    ),
    "malformed or unknown client:*": (
        f"{_SERVER}test_every_request_is_answered",
        f"{_SERVER}test_isolation_is_enforced_with_an_immediate_answer",
    ),
    "the agent field": (f"{_HERE}test_the_connection_decides_the_requester",),
    "list_room": (
        f"{_SERVER}test_members_can_list_their_office",
        f"{_SERVER}test_listing_before_joining_can_be_configured",
        f"{_SERVER}test_the_profile_spec_uses_the_protocols_codes",
    ),
    "server:update_*": (f"{_SERVER}test_updates_of_a_computer_are_sent_to_its_office",),
    "relay deadline": (
        f"{_HERE}test_a_time_limit_is_a_number_of_seconds_up_to_an_hour",
        f"{_HERE}test_a_call_has_five_seconds_beyond_its_limit",
    ),
    "deadline passes on tool_call": (
        f"{_HERE}test_a_call_has_five_seconds_beyond_its_limit",
        f"{_SERVER}test_a_call_that_times_out_is_cancelled",
    ),
    "deadline passes on others": (f"{_SERVER}test_other_requests_time_out_as_well",),
    "cancel": (
        f"{_STEP}walk_cancel",
        f"{_SERVER}test_an_agent_can_cancel_its_call",
        f"{_HERE}test_a_foreign_cancel_is_audited",
    ),
    "Computer disconnects mid-call": (
        f"{_PUBLISHED}test_calls_to_a_lost_computer_are_answered",
        f"{_KILL}test_a_computer_is_killed",
    ),
    "Computer's answer": (f"{_SERVER}test_requests_and_answers_are_relayed_unchanged", _REACHES),
    "event unknown to the target's version, or empty ack from it": (
        f"{_HERE}test_an_older_computer_is_sent_no_upload",
        f"{_SERVER}test_an_answer_that_is_no_object_becomes_an_error",
    ),
    "repeated req_id in flight": (f"{_SERVER}test_a_repeated_call_is_sent_once",),
    "two nodes each seat an Agent": (f"{_SHARED}test_two_agents_join_while_the_nodes_are_disconnected",),
    "office on another node": (f"{_SHARED}test_a_local_agent_and_a_remote_computer", f"{_ACROSS}test_a_step"),
    # Beside the table: limits and pitfalls of the protocol.
    "a frame above 1,000,000 bytes": (f"{_HERE}test_a_frame_that_is_too_large_ends_its_connection",),
    "clients start with polling and upgrade": (
        f"{_HERE}test_either_transport_alone_is_enough",
        f"{_SERVER}test_both_transports_are_served",
    ),
    "TLS": (f"{_HERE}test_published_clients_use_tls",),
    "mixed versions in one office": (
        f"{_PUBLISHED}test_versions_share_an_office",
        f"{_HERE}test_an_older_agent_may_upload_to_a_newer_computer",
    ),
}

ROWS: Final = [
    (name, row, tests)
    for name, table in (("handshake", HANDSHAKE), ("events", EVENTS), ("errors", ERRORS), ("decisions", DECISIONS))
    for row, tests in table.items()
]


@pytest.mark.parametrize(
    ("tests", "row"), [(tests, row) for _, row, tests in ROWS], ids=[f"{name}: {row}" for name, row, _ in ROWS]
)
def test_each_row_has_a_test(tests: tuple[str, ...], row: str) -> None:
    """It exists under the given name."""
    assert tests, f"{row} has no test"
    for test in tests:
        if test.startswith(_STEP):
            assert test.removeprefix(_STEP) in {step.__name__ for step in STEPS}, test
        else:
            file, _, name = test.partition("::")
            assert name in _tests_in(file), test


def test_all_events_are_in_the_table() -> None:
    """Events to the server, to Computers and to all members."""
    told = {"notify:enter_office", "notify:leave_office", "notify:tool_call_cancel", *UPDATES.values()}
    assert set(EVENTS) == {*CLIENT_EVENTS, *SERVER_EVENTS, *told}
    assert len(EVENTS) == 24


@cache
def _tests_in(file: str) -> frozenset[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, functions))

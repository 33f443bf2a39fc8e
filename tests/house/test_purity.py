"""Protocol decisions are free of I/O. Which modules do I/O is derived from their imports and calls."""

import sys

import pytest

from tests.house.source import PURE_LIBRARIES, Module, has_code, modules

WITH_CODE = [module for module in modules() if has_code(module)]

# Modules without I/O of their own that import one with it, because they only put such parts together.
# This list shrinks; it does not grow.
EXCEPTIONS: set[str] = {
    "appservice.intake.state_entries",
    "appservice.intake.transaction",
    "bridge.agents.statuses",
    "bridge.config.settings",
    "bridge.connectors.offices.calls.chat_command",
    "bridge.connectors.offices.rooms.call_events",
    "bridge.connectors.offices.rooms.record_rows",
    "bridge.matrix.backend",
    "bridge.observability.health",
    "bridge.people.interpret",
    "bridge.people.service.identities",
    "bridge.provisioning.about",
    "federation.directory.space_hierarchy",
    "federation.media.media",
    "federation.memberships.remote_membership",
    "federation.outbox.send_failure",
    "federation.peers.audit",
    "federation.peers.check.report",
}


@pytest.mark.parametrize("module", WITH_CODE, ids=lambda module: module.name)
def test_a_module_without_io_imports_none_with_io(module: Module) -> None:
    """A decision is called by code that does I/O. If it imported I/O, it could do it."""
    reached = {} if module.does_io else {path.stem for path in module.imported_modules() if Module(path).does_io}
    if module.name in EXCEPTIONS:
        assert reached, "it needs no exception any more"
    else:
        assert not reached


def test_the_exceptions_exist() -> None:
    """An exception for a removed module is removed with it."""
    assert {module.name for module in modules()} >= EXCEPTIONS


def test_the_list_of_libraries_names_real_modules() -> None:
    """A misspelt entry would allow nothing and hide that."""
    standard = {name.split(".")[0] for name in PURE_LIBRARIES if name == name.lower()}
    assert len(standard & set(sys.stdlib_module_names)) > 30

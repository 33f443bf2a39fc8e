"""What the commands work on."""

from bridge.service.operator.parts import Parts
from federation.service.homeserver import Homeserver


def test_a_homeserver_has_it_all() -> None:
    """What is named here is named so there."""
    wanted = {name for name in vars(Parts) if not name.startswith("_")}
    assert wanted <= set(dir(Homeserver)) | set(Homeserver.__dataclass_fields__)
    assert "outbox" in wanted

"""Why an event is not taken."""

from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload, TooLarge


def test_a_wrong_payload_names_its_field() -> None:
    """In one sentence behind the error code of the specification."""
    assert str(InvalidPayload("task.prompt", "is missing")) == "INVALID_PAYLOAD: task.prompt is missing."


def test_a_field_s_name_is_the_peer_s_and_harmless() -> None:
    """It may be as long as the event, and end in a log."""
    refused = str(InvalidPayload("a\n" * 200, "is wrong"))
    assert "\n" not in refused
    assert len(refused) < 600


def test_a_reason_is_its_sentence() -> None:
    """It is shown as it is."""
    assert str(Forbidden("No.")) == "No."
    assert str(TooLarge("Too much.")) == "Too much."

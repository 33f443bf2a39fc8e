"""The texts of refusals."""

from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload, TooLarge


def test_a_wrong_payload_names_its_field() -> None:
    """In one sentence after the error code of the specification."""
    assert str(InvalidPayload("task.prompt", "is missing")) == "INVALID_PAYLOAD: task.prompt is missing."


def test_a_field_name_is_made_harmless() -> None:
    """It comes from the peer, may be very long, and is logged."""
    refused = str(InvalidPayload("a\n" * 200, "is wrong"))
    assert "\n" not in refused
    assert len(refused) < 600


def test_a_reason_is_its_sentence() -> None:
    """It is used unchanged."""
    assert str(Forbidden("No.")) == "No."
    assert str(TooLarge("Too much.")) == "Too much."

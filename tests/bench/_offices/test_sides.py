import json

from bench._offices.sides import NODE, REFERENCE, Listener, Place, Settings, as_dict, settings_of


def test_the_load_generator_is_told_by_its_command_line() -> None:
    """What it reads there is what was meant."""
    one, other = Listener(1, "first"), Listener(2, "second")
    said = Settings({NODE: (Place(one, one, "a"), Place(one, other, "b@there")), REFERENCE: ()})
    assert settings_of(json.loads(json.dumps(as_dict(said)))) == said

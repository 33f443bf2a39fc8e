import json

from bench._appservice.sides import BOT, NODE, Answerer, Person, Settings, as_dict, settings_of


def test_the_load_generator_is_told_by_its_command_line() -> None:
    """What it reads there is what was meant."""
    said = Settings(
        homeserver="https://localhost:1",
        authority="/ca.pem",
        people=(Person("@a:localhost:1", "one"), Person("@b:localhost:1", "two")),
        answerers={NODE: Answerer("@_agent_echo:localhost:1", "echo", "!a"), BOT: Answerer("@bot", "bot", "!b")},
    )
    assert settings_of(json.loads(json.dumps(as_dict(said)))) == said

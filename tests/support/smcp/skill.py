"""The skill of every Computer in the tests: a short text, a long one, and data."""

from pathlib import Path

SKILL = "notes"
SKILL_TEXT = "Notes are kept here.\n"
LONG_TEXT = "a long note, " * 8_000
BINARY = bytes(position * 7 & 0xFF for position in range(600_000))


def equip(directory: Path) -> None:
    """Put the skill where a Computer in that directory finds it. Before 0.2 there were none."""
    skill = directory / "skills" / "user" / SKILL
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: {SKILL}\ndescription: How notes are kept.\n---\n{SKILL_TEXT}")
    (skill / "long.txt").write_text(LONG_TEXT)
    (skill / "data.bin").write_bytes(BINARY)

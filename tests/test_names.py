"""The five top-level names belong to this distribution alone."""

from bridge.node.doctor import foreign_claims, homes


def test_nothing_that_is_installed_claims_a_name_of_ours() -> None:
    """A stranger's package of the same name would silently overwrite half of ours."""
    assert foreign_claims() == {}


def test_all_names_are_imported_from_one_place() -> None:
    """Five packages of one distribution lie side by side."""
    places = set(homes().values())
    assert len(places) == 1
    assert None not in places

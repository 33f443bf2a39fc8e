"""The five top-level packages belong to this distribution alone."""

from bridge.node.doctor import conflicting_distributions, import_roots


def test_no_other_distribution_has_our_packages() -> None:
    """Another distribution with a package of the same name would overwrite part of ours."""
    assert conflicting_distributions() == {}


def test_all_packages_are_imported_from_one_place() -> None:
    roots = set(import_roots().values())
    assert len(roots) == 1
    assert None not in roots

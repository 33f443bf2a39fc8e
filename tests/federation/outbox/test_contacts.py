"""The last contacts with other servers."""

from federation.outbox.retry_schedule import MAX_CONTACTS, NO_CONTACT, Contact, Contacts


def test_the_latest_contact_of_each_kind_is_kept() -> None:
    """A success does not delete the last failure: a server that fails every other time shows it."""
    contacts = Contacts()
    assert contacts.of("a.test") == NO_CONTACT
    contacts.failed("a.test", 1, "does not answer")
    contacts.failed("a.test", 2, "answered 502")
    contacts.reached("a.test", 3)
    contacts.request_received("a.test", 4)
    contacts.request_received("b.test", 5)
    assert contacts.of("a.test") == Contact(3, 2, "answered 502", 4)
    assert contacts.of("b.test") == Contact(request_received_at=5)
    assert contacts.servers() == {"a.test", "b.test"}


def test_the_oldest_contacts_are_evicted() -> None:
    """Invented server names cannot fill the memory."""
    contacts = Contacts()
    contacts.request_received("first.test", 0)
    for number in range(MAX_CONTACTS):
        contacts.request_received(f"{number}.test", number)
    assert contacts.of("first.test") == NO_CONTACT
    assert len(contacts.servers()) == MAX_CONTACTS

"""Tables of people: the messages of their tasks, approvals, direct chats and double puppets."""

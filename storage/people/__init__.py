"""Threads, direct chats, puppets."""

"""Calls of tools by people, operators and tasks, and the approval of calls."""

"""Approvals: a question to people in a room, its approvers and its deadline, and the verdict."""

"""Asking people before something is done: a question, who may answer, until when, and a verdict."""

"""The peer check: what a federation tester does. It finds out whether another server can be reached and
authenticated, and otherwise what is wrong and what to do. `run` gathers the facts, `report` evaluates
them."""

"""Whether another server can be reached, believed and spoken with, and if not, what is wrong and what to do:
what a federation tester checks. `run` gathers the facts, `report` draws the conclusions."""

"""`palaver agent run`: a program that attaches itself to a node, and runs a command for each task."""

"""Whose fault it is: here the kind that every layer shares, something on this machine."""


class LocalError(Exception):
    """Whoever runs this node has to put something right.

    `problem` says what is wrong in one sentence, `advice` what to do about it in another. Both are shown to a
    person as they are, so neither may ever hold a secret.
    """

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem} {advice}")
        self.problem = problem
        self.advice = advice

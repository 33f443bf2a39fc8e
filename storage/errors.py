"""`LocalError`, the error that an operator of this node has to fix. All packages use it."""


class LocalError(Exception):
    """An error that the operator of this node has to fix.

    `problem` says in one sentence what is wrong, `advice` says what to do about it. Both are shown to people
    unchanged, so neither may contain a secret.
    """

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem} {advice}")
        self.problem = problem
        self.advice = advice

"""Greets somebody: say here what the action does, in one line."""


def run(name: str = "world") -> str:
    """Greets somebody.

    Args:
        name: Whom to greet.
    """
    from .impl import run as implementation

    return implementation(name)

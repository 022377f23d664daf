"""Whose fault it is.

`TheirFault`: a record, file or flag that came from outside is wrong. The caller names it, sets it
aside (quarantine), counts it and goes on. `OurFault`: an invariant of ours is broken. Nothing
catches it on the way: the process stops loudly.
"""


class TheirFault(ValueError):  # noqa: N818 -- the name says who must act
    """Foreign input is refused. `path` is where (`members[3].capacity`), `message` is why."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message

    def as_error(self) -> dict[str, str]:
        """Give the `error` object of contract.md: `{"path": …, "message": …}`."""
        return {"path": self.path, "message": self.message}


class OurFault(AssertionError):  # noqa: N818 -- the name says who must act
    """An invariant of Plimsoll is broken; never caught."""

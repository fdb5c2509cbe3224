"""Progress reports of long work."""

__all__ = ["Watcher"]


class Watcher:
    """Receives the progress of a run; does nothing unless overridden."""

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """``done`` of ``total`` units of the stage called ``name`` are finished."""

    def note(self, text: str) -> None:
        """A line of text about the run."""

"""Who is told what a run is doing."""

__all__ = ["Watcher"]


class Watcher:
    """Told of every stage of a run; says nothing unless somebody overrides it."""

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """``done`` of ``total`` units of the stage called ``name`` are behind us."""

    def note(self, text: str) -> None:
        """Something worth a line happened."""

"""PML's global switch for statistics. None are kept here; code that reads the switch finds it."""

__all__ = ["Statistics"]


class _Switch:
    """The value of the switch, unless a part was told otherwise."""

    def __get__(self, part: object, kind: type | None = None) -> bool:
        return Statistics.wanted


class Statistics:
    """What says ``collect_stats``: as it was told, or else as the global switch says."""

    wanted: bool = False
    collect_stats: _Switch | bool = _Switch()

    def told_to_collect(self, collect_stats: bool | None) -> None:
        """Keep what the argument ``collect_stats`` says; None says nothing."""
        if collect_stats is not None:
            self.collect_stats = collect_stats

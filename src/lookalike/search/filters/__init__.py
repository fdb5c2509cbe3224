"""Which pictures of an index are searched: ``price < 50 and brand = 'x'``."""

from lookalike.search.filters.conditions import Columns, numbers
from lookalike.search.filters.filter import Filter

__all__ = ["Columns", "Filter", "numbers"]

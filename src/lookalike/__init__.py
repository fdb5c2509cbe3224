"""Lookalike: teach a network which images look alike, and prove fairly how well it does."""

from importlib.metadata import version

__version__ = version("lookalike")

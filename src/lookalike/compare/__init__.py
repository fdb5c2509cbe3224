"""Judging results: contenders, statistics, the fairness audit, comparisons."""

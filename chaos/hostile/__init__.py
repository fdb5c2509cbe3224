"""Hostile input: files, settings and requests that were made, or changed, to do harm.

A *fuzzer* makes inputs of one kind from a seed and hands each to the product. It fails if something
is accepted that must be refused, if an exception is no sentence of ours, if it takes too long or
too much memory, or if a file appears outside of its folder. A fuzzer runs in a process of its own
(``chaos.hostile.process``), with a limit on memory and a watchdog.
"""

"""A campaign of random faults over the whole product: ``python -m chaos --minutes 20``.

A *scenario* makes an undisturbed reference once and then, attempt after attempt, disturbs the same
work at random and compares. Scenarios live in ``chaos/parts/``: each module there has a tuple
``SCENARIOS``, and a new module is found by itself.
"""

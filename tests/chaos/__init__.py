"""A campaign of random faults over the whole product: ``python -m tests.chaos --minutes 20``.

Three tables and two scenarios of a server:

- ``works.py`` has the *works*, what the product does (a training, a study, an index that changes),
  and ``disturbances.py`` what happens to any of them (a kill, a signal, a full disk, a wrong clock,
  a damaged file). A disturbed work must end as the undisturbed one did. Which disturbance meets
  which work is the table in ``scenarios.py``.
- ``readers.py`` changes any byte of any of our files, and reads them.
- ``doors/`` has what strangers may send: each door takes inputs that Hypothesis makes.
- ``server.py`` kills a server, and loads it.
"""

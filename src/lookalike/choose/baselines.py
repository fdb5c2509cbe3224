"""The LDA where the heads start: its shrinkage is chosen before any training, and nothing tested.

A study with ``model.head_init=auto`` would choose the shrinkage again in every fold and worker,
which takes far longer than the training of a head.
"""

from dataclasses import replace
from pathlib import Path

from lookalike.errors import LookalikeError
from lookalike.files import refuse_links
from lookalike.study.config import StudyConfig
from lookalike.study.driver import Executor
from lookalike.study.ledger import Ledger
from lookalike.study.plan import make_plan

SECONDS_BETWEEN_LOOKS = 0.5


def best_shrink(study: StudyConfig, folder: Path, pool: Executor) -> float:
    """The shrinkage of LDA that is best on the validation classes of all folds.

    Args:
        study: A study with baselines.
        folder: The folder of its results, which keeps the shrinkage.
        pool: What chooses it, if it is not there yet.

    Returns:
        The shrinkage.

    Raises:
        LookalikeError: It failed.
    """
    baselines = make_plan(study, folder).baselines[0].task
    key = f"{baselines.key}/shrinkage"
    task = replace(baselines, key=key, kind="shrinkage")
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(folder)
    with Ledger(f"sqlite:///{folder.resolve() / 'study.db'}") as ledger:
        records, _ = ledger.records([task.key])
        record = records.get(task.key)
        if record is None:
            pool.submit(task)
        while record is None:
            for outcome in pool.wait(SECONDS_BETWEEN_LOOKS):
                record = outcome.record or {"error": "the worker died"}
                if "error" not in record and ledger.claim(task.key):
                    ledger.finish(task.key, record)
    if "error" in record:
        raise LookalikeError(f"the untrained features cannot be scored: {record['error']}")
    return float(record["shrink"])

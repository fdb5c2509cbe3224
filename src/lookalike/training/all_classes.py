"""A model for use: trained on every class, as long as a validated run found best."""

from lookalike.config import RunConfig
from lookalike.errors import BadInput
from lookalike.runs.run import Run

__all__ = ["for_all_classes"]


def for_all_classes(run: Run) -> RunConfig:
    """The configuration of a run, for all classes of its data set.

    The number of epochs is that which validation chose. No classes are left to test on: what is
    known of the new model are the scores of ``run``.

    Args:
        run: A finished run that was validated.

    Returns:
        The same settings with ``protocol.name=all``.

    Raises:
        BadInput: The run is not finished or was not validated, or no epoch was better than none.
    """
    config, chosen = run.config, run.result.get("chosen_epoch")
    if chosen is None:
        raise BadInput(f"'{run.folder}' was not validated, so it does not say how long to train")
    if chosen == 0:
        raise BadInput(
            f"in '{run.folder}' no epoch was better on the validation classes than the network "
            "before training; use that one (lookalike index --network)"
        )
    return config.model_copy(
        update={
            "protocol": config.protocol.model_copy(update={"name": "all"}),
            "train": config.train.model_copy(update={"epochs": chosen}),
        }
    )

"""Settings that change nothing in the run they are given to."""

from lookalike.config import RunConfig, Section

__all__ = ["without_effect"]


def without_effect(config: RunConfig) -> list[str]:
    """A sentence for each setting that is not at its default and has no effect."""
    model, optim, protocol = config.model, config.optim, config.protocol
    found = []

    def unless(used: bool, section: str, keys: tuple[str, ...], reason: str) -> None:
        part: Section = getattr(config, section)
        for key in keys:
            if not used and getattr(part, key) != type(part).model_fields[key].default:
                found.append(f"{section}.{key} has no effect: {reason}")

    unless(
        protocol.name != "paper",
        "train",
        ("patience", "patience_epochs", "metric", "validate_every"),
        "protocol.name=paper validates nothing",
    )
    fixed = protocol.name == "fixed-validation"
    unless(fixed, "protocol", ("ratio",), "only protocol.name=fixed-validation reads it")
    crossed = protocol.name == "cross-validation"
    unless(crossed, "protocol", ("folds", "order"), "only protocol.name=cross-validation reads it")
    moving = optim.name in ("rmsprop", "sgd")
    unless(moving, "optim", ("momentum",), f"optim.name={optim.name} has none")
    stepped = optim.schedule == "step"
    unless(stepped, "optim", ("step_size", "gamma"), "only optim.schedule=step reads it")
    unless(
        not model.frozen,
        "optim",
        ("warmup_epochs",),
        "model.frozen=true trains the head from the start",
    )
    unless(
        not model.frozen,
        "model",
        ("freeze_bn_statistics", "freeze_bn_affine", "freeze_backbone"),
        "model.frozen=true trains the head only",
    )
    unless(
        model.frozen or model.frozen_until is not None,
        "model",
        ("frozen_views",),
        "only model.frozen=true and model.frozen_until read it",
    )
    unless(model.head_init == "lda", "model", ("head_shrink",), "only model.head_init=lda reads it")
    return found

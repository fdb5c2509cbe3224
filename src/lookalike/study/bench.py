"""Where tasks are done: data, features and starts of heads stay in memory between them."""

import math
import shutil
import time
from collections.abc import Callable
from typing import Any

from torch import Tensor

from lookalike import data
from lookalike.config import RunConfig, parse
from lookalike.data import ImageSet, PixelStore, Preset, Split, Subset
from lookalike.errors import LookalikeError
from lookalike.models.head import l2_normalise
from lookalike.progress import Watcher
from lookalike.runs.finished import test_embeddings
from lookalike.study.baselines import FoldFeatures, baselines, final_scores
from lookalike.study.tasks import Task
from lookalike.training.batches import embed
from lookalike.training.building import (
    HeadStart,
    Learner,
    build_learner,
    frozen_features,
    head_start,
    learner_of,
    splits_of,
)
from lookalike.training.distributed.devices import prepared_fabric
from lookalike.training.features import Features
from lookalike.training.loop import TrainingLoop
from lookalike.training.runner import train

__all__ = ["Bench"]


class Bench:
    """Does tasks one after the other; what several of them need is made once."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.watcher = watcher or Watcher()
        self.stores: dict[str, tuple[ImageSet, PixelStore, Preset]] = {}
        self.features: dict[str, Features] = {}
        self.tuning: dict[str, Split] = {}
        self.starts: dict[str, HeadStart | None] = {}
        self.fabrics: dict[tuple[str, str], Any] = {}

    def run(self, task: Task) -> dict[str, Any]:
        """What comes of a task; what goes wrong is a record too."""
        begun = time.monotonic()
        work: dict[str, Callable[[RunConfig, bool], dict[str, Any]]] = {
            "validate": self.validate,
            "repeat": self.repeat,
            "baselines": self.baselines,
        }
        try:
            found = work[task.kind](parse(task.config, task.title), task.checkpoints)
        except Exception as error:  # a loss may raise anything; the study goes on
            found = {"error": " ".join(f"{named(error)}{error}".split())}
        return found | {"seconds": round(time.monotonic() - begun, 3)}

    def validate(self, config: RunConfig, checkpoints: bool) -> dict[str, Any]:
        """Train one fold; the best validation score. There is no test set here."""
        if checkpoints:
            run = train(config, self.watcher)
            value = run.result["validation"][config.train.metric]
            shutil.rmtree(run.folder, ignore_errors=True)  # the score is all that is kept
        else:
            value = self.learned(config, self.tuning_split(config)).progress.best_score
        if not math.isfinite(value):
            raise LookalikeError(f"the validation score is {value}")
        return {"score": float(value)}

    def repeat(self, config: RunConfig, checkpoints: bool) -> dict[str, Any]:
        """Train every fold, test each, and all of them side by side."""
        metric, metrics = config.train.metric, config.protocol.metrics
        validation, embedded = [], []
        test: Subset | None = None
        images, _, _ = self.store(config)
        for fold, split in enumerate(splits_of(config, images)):
            one = on_fold(config, fold)
            if checkpoints:
                run = train(one, self.watcher)
                validation.append(float(run.result["validation"][metric]))
                embedded.append(l2_normalise(test_embeddings(run).embeddings))
                test = split.final_test()
            else:
                learning = self.learned(one, split)
                validation.append(float(learning.progress.best_score))
                test = split.final_test()
                embedded.append(l2_normalise(learning.embed(test, "testing")))
        if test is None:
            raise LookalikeError("the protocol has no folds")
        separate, together = final_scores(embedded, test, metrics)
        return {"validation": validation, "separate": separate, "concatenated": together}

    def baselines(self, config: RunConfig, checkpoints: bool) -> dict[str, Any]:
        """Raw features, PCA and LDA."""
        del checkpoints
        images, _, _ = self.store(config)
        learner = self.learner(config)
        plain = learner.model.without_linear()
        size = config.train.eval_batch_size

        def features(subset: Subset) -> Tensor:
            return embed(plain, subset, learner.source, batch_size=size)

        folds = [FoldFeatures(split, features) for split in splits_of(config, images)]
        dim = config.model.dim
        return {"rows": baselines(folds, dim, config.train.metric, config.protocol.metrics)}

    def learned(self, config: RunConfig, split: Split) -> TrainingLoop:
        """A model trained on a split, without a folder; its epochs are scored by one metric."""
        chooser = config.protocol.model_copy(update={"metrics": (config.train.metric,)})
        scored = config.model_copy(update={"protocol": chooser})
        learning = TrainingLoop(
            scored, self.fabric(config), split, self.learner(config), self.watcher
        )
        learning.learn(self.start(config, learning))
        return learning

    def learner(self, config: RunConfig) -> Learner:
        """What learns, and its source."""
        images, store, preset = self.store(config)
        device = self.fabric(config).device
        if not config.model.frozen:
            return build_learner(config, images, store, preset, device, self.watcher)
        model = config.model
        key = keyed(config.data, model.network, model.weights, model.pooling, model.frozen_views)
        if key not in self.features:
            self.features[key] = frozen_features(
                config, images, store, preset, device, self.watcher
            )
        return learner_of(config, self.features[key], device)

    def start(self, config: RunConfig, learning: TrainingLoop) -> HeadStart | None:
        """Where the head starts; on frozen features that is the same for all trials of a fold."""
        if not config.model.frozen:
            return None
        key = keyed(config.data, config.model, config.protocol, learning.split.fold)
        if key not in self.starts:
            train_set, source = learning.split.train, learning.source
            self.starts[key] = head_start(config, learning.model, train_set, source)
        return self.starts[key]

    def tuning_split(self, config: RunConfig) -> Split:
        """The classes of one fold; nothing of the test images is in it."""
        key = keyed(config.data, config.protocol, config.seed)
        if key not in self.tuning:
            images, _, _ = self.store(config)
            self.tuning[key] = splits_of(config, images)[config.protocol.fold].for_tuning()
        return self.tuning[key]

    def store(self, config: RunConfig) -> tuple[ImageSet, PixelStore, Preset]:
        """The images of a data set, decoded."""
        key = keyed(config.data)
        if key not in self.stores:
            given = config.data
            images = data.load(given.name, given.root, given.skip_unreadable)
            preset = data.preset(given.transform)
            store = data.open_store(
                images,
                preset.short_side,
                progress=lambda a, b: self.watcher.stage("decoding", a, b),
            )
            self.stores[key] = images, store, preset
        return self.stores[key]

    def fabric(self, config: RunConfig) -> Any:
        """The device."""
        key = config.train.device, config.train.precision
        if key not in self.fabrics:
            self.fabrics[key] = prepared_fabric(config.train)
        return self.fabrics[key]


def on_fold(config: RunConfig, fold: int) -> RunConfig:
    """The same run on another fold; the untrained network is a baseline of the study already."""
    protocol = config.protocol.model_copy(update={"fold": fold, "test_untrained": False})
    return config.model_copy(update={"protocol": protocol})


def keyed(*parts: Any) -> str:
    """A name for what depends on these."""
    texts = (p.model_dump_json() if hasattr(p, "model_dump_json") else repr(p) for p in parts)
    return "|".join(texts)


def named(error: Exception) -> str:
    """The kind of an error, where its sentence alone would not do."""
    return "" if isinstance(error, LookalikeError) else f"{type(error).__name__}: "

"""What a reproduction would train, counted before anything runs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lookalike import published
from lookalike.config import RunConfig, recipes
from lookalike.config.keys import as_text, declared_keys, flattened
from lookalike.config.schema import weights_kind
from lookalike.data.presets import preset_name
from lookalike.models import preset_of
from lookalike.papers.catalogue import Entry
from lookalike.papers.scale import Scale, small_settings
from lookalike.papers.selection import FILE_ONLY, Row, heading, rows, trainings_of
from lookalike.report.tables import aligned
from lookalike.study.tuning import TunerConfig, trials_asked
from lookalike.training.building import mixes_pixels


@dataclass(frozen=True)
class Plan:
    """The trainings of one table or figure."""

    entry: Entry
    scale: Scale
    rows: tuple[Row, ...]
    tuner: TunerConfig
    repeats: int
    deviations: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The folder of the results below ``results/``."""
        return f"reproduce/{self.entry.study}{self.suffix}"

    @property
    def suffix(self) -> str:
        """What folders and files are named by at small scale: the scale, and other images."""
        if self.scale == "paper":
            return ""
        images = {row.config.data.name for row in self.rows} - {"glyphs"}
        return "-".join(["-small", *sorted(images)])

    @property
    def trainings(self) -> int:
        """How many models are trained: trials and repeats of every row, on every fold."""
        return sum(map(self.trainings_of, self.rows))

    def trainings_of(self, row: Row) -> int:
        """How many models one row trains."""
        return trainings_of(row.config, row.search, self.tuner, self.repeats)

    def as_mapping(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "name": self.entry.name,
            "title": heading(self.entry, self.rows),
            "paper": published.papers()[self.entry.paper].title,
            "source": self.entry.source,
            "scale": self.scale,
            "results": f"results/{self.folder}",
            "trainings": self.trainings,
            "repeats": self.repeats,
            "deviations": list(self.deviations),
            "rows": [
                {
                    "method": row.method,
                    "axes": row.axes,
                    "recipe": row.recipe,
                    "folds": row.folds,
                    "trials": trials_asked(self.tuner, row.search),
                    "trainings": self.trainings_of(row),
                    "published": {m: number.value for m, number in row.published.items()},
                }
                for row in self.rows
            ],
        }

    def as_text(self) -> str:
        """The plan for a terminal: each row with its trainings and what the document prints."""
        paper = published.papers()[self.entry.paper]
        scale = ", small scale" if self.scale == "small" else ""
        axes = dict.fromkeys(axis for row in self.rows for axis in row.axes)
        table = [["method", *axes, "trainings", "published", "recipe"]]
        for row in self.rows:
            values = [row.axes.get(axis, "") for axis in axes]
            count = f"{self.trainings_of(row):,}"
            table.append([row.method, *values, count, _numbers(row), row.recipe])
        lines = [
            f"{self.entry.name}{scale}: {heading(self.entry, self.rows)}",
            f"{paper.authors}: {paper.title}, {paper.venue} {paper.year}; {self.entry.source}",
            *("", *aligned(table), "", f"{self.trainings:,} trainings: {self._counted()}."),
        ]
        lines[-1] += f" Results: results/{self.folder}"
        lines.append("The time left is estimated after the first training.")
        for title, sentences in (
            ("What differs from the paper:", self.deviations),
            ("What the document leaves open:", open_questions(self.entry, self.rows)),
        ):
            if sentences:
                lines += ["", title, *(f"- {sentence}" for sentence in sentences)]
        return "\n".join(lines)

    def _counted(self) -> str:
        trials = sum(trials_asked(self.tuner, row.search) for row in self.rows)
        folds = max(row.folds for row in self.rows)
        times = "once" if self.repeats == 1 else f"{self.repeats} times"
        rows = "1 row" if len(self.rows) == 1 else f"{len(self.rows)} rows, each"
        searched = [f"{trials:,} trials"] if trials else []
        return ", ".join([f"{rows} {times}", *searched, *([f"{folds} folds"] if folds > 1 else [])])


def _numbers(row: Row) -> str:
    """The first published number of a row."""
    for metric, number in row.published.items():
        if number.value is not None:
            spread = f" ± {number.spread:g}" if number.spread is not None else ""
            return f"{metric} {number.value:g}{spread}"
    return ""


def make_plan(
    entry: Entry,
    scale: Scale = "paper",
    overrides: Iterable[str] = (),
    repeats: int | None = None,
    trials: int | None = None,
) -> Plan:
    """What an entry would train.

    Args:
        entry: The table or figure.
        scale: ``paper`` or ``small``.
        overrides: ``key=value`` settings of every run.
        repeats: Trainings of each row with new seeds; None: the entry's.
        trials: Trials of a search; None: the entry's.

    Returns:
        The rows, and how many trainings they are.

    Raises:
        BadInput: A setting is invalid.
    """
    found = rows(entry, scale, overrides)
    tuner = TunerConfig(
        name=entry.tuner.name,
        trials=trials or (entry.tuner.small_trials if scale == "small" else entry.tuner.trials),
        prune=False,
    )
    return Plan(
        entry,
        scale,
        tuple(found),
        tuner,
        repeats or entry.repeats,
        tuple(deviations(entry, scale, found, repeats or entry.repeats, tuner)),
    )


SMALL = (
    "Small scale: another network, other images and a short training. The published numbers stand "
    "beside for orientation only."
)
UNSET = {"train.batches_per_epoch": "the sampler's own number"}
"""What a key without a value stands for, if not for nothing."""
IGNORED = ("data.root", "runs_dir", "seed", "train.device", "train.eval_batch_size")
"""Keys that change nothing about the experiment."""


def deviations(
    entry: Entry, scale: Scale, found: Sequence[Row], repeats: int, tuner: TunerConfig
) -> list[str]:
    """What differs from the paper in how rows are trained.

    Args:
        entry: The table or figure.
        scale: ``paper`` or ``small``.
        found: The rows.
        repeats: Trainings of each row.
        tuner: How hyper-parameters are searched.

    Returns:
        One sentence for each difference.
    """
    if not found:
        return []
    sentences = [SMALL] if scale == "small" else []
    sentences += _missing_axes(entry, found)
    sentences += _fresh_crops(found)
    sentences += _changed_keys(found)
    if scale == "paper":
        sentences += _weights(found)
    sentences += _crops(found)
    if entry.searches:
        asked = {trials_asked(tuner, row.search) for row in found}
        wanted = {
            trials_asked(TunerConfig(name=tuner.name, trials=entry.tuner.trials), row.search)
            for row in found
        }
        if asked != wanted:
            sentences.append(f"Trials of a search: {_values(asked)} instead of {_values(wanted)}.")
    if repeats != entry.repeats:
        sentences.append(f"Trainings of each row: {repeats} instead of {entry.repeats}.")
    return sentences


def open_questions(entry: Entry, found: Iterable[Row]) -> list[str]:
    """What the document leaves open, and what its recipes chose.

    Args:
        entry: The table or figure.
        found: The rows.

    Returns:
        The entry's note and those of its recipes, each once.
    """
    texts = [entry.notes, *(recipes.recipe(row.recipe).notes for row in found)]
    return list(dict.fromkeys(part for text in texts for part in text.split("\n\n") if part))


def _missing_axes(entry: Entry, found: Sequence[Row]) -> Iterator[str]:
    for axis in entry.axes:
        if all(axis not in row.axes for row in found):
            yield f"The paper varies {axis}; here there is only one."


def _fresh_crops(found: Sequence[Row]) -> Iterator[str]:
    """Rows that pass a frozen front every time, beside rows that read its stored maps."""
    cut = [row for row in found if row.config.model.frozen_until]
    fresh = [row.label for row in cut if mixes_pixels(row.config)]
    if 0 < len(fresh) < len(cut):
        views = _values({row.config.model.frozen_views for row in cut})
        yield (
            "The same layers learn in all rows; where pixels are mixed "
            f"({'; '.join(fresh)}), images are cropped anew in every step, and in the other rows "
            f"they have {views} stored crops."
        )


def _changed_keys(found: Sequence[Row]) -> Iterator[str]:
    """One sentence for each key that is not the recipe's, with all its values."""
    titles = small_settings()["titles"]
    changed = [(_flat(row.as_published), _flat(row.config)) for row in found if row.as_published]
    keys = dict.fromkeys(key for before, after in changed for key in (*before, *after))
    for key in keys:
        if key.startswith(IGNORED):
            continue
        declared = declared_keys(RunConfig).get(key)
        differing = [
            (before.get(key), after.get(key))
            for before, after in changed
            if before.get(key) != after.get(key)
            and (declared is None or declared.key.is_active(after))
        ]
        if not differing:
            continue
        some = "" if len(differing) == len(found) else f" ({len(differing)} of {len(found)} rows)"
        was, now = (_values({_shown(key, pair[side]) for pair in differing}) for side in (0, 1))
        yield f"{titles.get(key, key)}: {now} instead of {was}{some}."


def _weights(found: Sequence[Row]) -> Iterator[str]:
    """Where the weights that training starts from come from."""
    networks = {row.config.model.network for row in found}
    on_hub = sorted(networks - set(FILE_ONLY))
    if on_hub:
        yield f"ImageNet weights of {', '.join(on_hub)} are those of timm or torchvision."
    for network in sorted(networks & set(FILE_ONLY)):
        yield f"ImageNet weights of {network} come from a file, as no hub has them."


def _shown(key: str, value: Any) -> str:
    if key == "model.weights":
        return weights_kind(str(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNSET.get(key, "none") if value is None else as_text(value)


def _crops(found: Sequence[Row]) -> Iterator[str]:
    """Crops are taken from the image cache."""
    given = {(row.config.data.transform, row.config.model.network) for row in found}
    presets = [preset_of(*one) for one in given if ":" not in preset_name(one[0])]
    sizes = {preset.resize for preset in presets} - {None}
    if sizes:
        yield f"Crops are taken from images that were resized before ({_values(sizes)} px)."


def _flat(config: RunConfig | None) -> dict[str, Any]:
    return {} if config is None else flattened(config.model_dump(mode="json"))


def _values(values: Iterable[Any]) -> str:
    shown = sorted(set(values), key=lambda value: (str(type(value)), value))
    text = [str(value) for value in shown]
    return ", ".join(text if len(text) <= 4 else [*text[:3], "..."])

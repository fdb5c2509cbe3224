"""What came out of a reproduction: every row with its published and its own scores."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from lookalike.compare.contenders import MethodResult, ResultSet
from lookalike.papers.catalogue import Entry
from lookalike.papers.claims import METRIC, ClaimResult
from lookalike.papers.scale import Scale
from lookalike.papers.selection import Row, scores_of
from lookalike.published import Published
from lookalike.report.formatting import metric_label


@dataclass(frozen=True)
class Outcome:
    """A table or figure of a paper, trained again."""

    entry: Entry
    heading: str
    """What is shown, and of which images and network: at small scale others than the paper's."""
    scale: Scale
    rows: tuple[Row, ...]
    """Those that were tested, or, of a figure that shows the losses themselves, all."""
    deviations: tuple[str, ...]
    """What differs from the paper, as sentences."""
    claims: tuple[ClaimResult, ...]
    open_questions: tuple[str, ...] = ()
    """What the document leaves open."""
    unfinished: tuple[str, ...] = ()
    """The labels of rows that have no test score yet."""
    command: str = ""
    gathered: ResultSet | None = field(default=None, compare=False)
    """The study, as every report shows it; None where nothing was tested."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were measured, in the order of the rows."""
        return tuple(dict.fromkeys(metric for row in self.rows for metric in row.ours))

    @cached_property
    def baselines(self) -> tuple[MethodResult, ...]:
        """What the networks score without training, each once.

        Equal baselines of several cells are one, with the values of axes that all of them share.
        """
        merged: dict[str, list[MethodResult]] = {}
        for one in self.gathered.contenders if self.gathered else ():
            if one.baseline:
                scores = [one.name, *(dict(model.scores) for model in one.models)]
                merged.setdefault(json.dumps(scores), []).append(one)
        found = []
        for first, *others in merged.values():
            common = {
                key: value
                for key, value in first.axes.items()
                if all(other.axes.get(key) == value for other in others)
            }
            found.append(replace(first, axes=common))
        return tuple(found)

    @property
    def unbeaten(self) -> list[str]:
        """A sentence for each untrained network that scores higher than every trained row."""
        found = []
        for one in self.baselines:
            rows = [row for row in self.rows if one.axes.items() <= row.axes.items()]
            trained = [row for row in rows if METRIC in row.ours]
            own = one.interval(METRIC)
            if own is None or not trained:
                continue
            best = max(trained, key=lambda row: row.ours[METRIC].mean)
            score, theirs = 100 * own.mean, 100 * best.ours[METRIC].mean
            if score > theirs:
                where = "".join(f", {key} {value}" for key, value in one.axes.items())
                found.append(
                    f"Higher in {metric_label(METRIC)} than every trained row{where}: "
                    f"{one.name} of the untrained network ({score:.2f}); the best of the rows, "
                    f"{best.label}, has {theirs:.2f}."
                )
        return found

    def as_mapping(self) -> dict[str, Any]:
        """The outcome as JSON values; scores are fractions, unknown numbers None."""
        return {
            "name": self.entry.name,
            "title": self.heading,
            "paper": self.entry.paper,
            "source": self.entry.source,
            "scale": self.scale,
            "command": self.command,
            "deviations": list(self.deviations),
            "open_questions": list(self.open_questions),
            "unbeaten": self.unbeaten,
            "claims": [asdict(claim) for claim in self.claims],
            "unfinished": list(self.unfinished),
            "rows": [_row_mapping(row) for row in self.rows if row.contender],
            "baselines": [
                {
                    "method": one.name,
                    "axes": dict(one.axes),
                    "scores": {m: found.as_mapping() for m, found in scores_of(one).items()},
                }
                for one in self.baselines
            ],
        }


def _row_mapping(row: Row) -> dict[str, Any]:
    """A row as JSON values."""
    study_row = row.contender.row if row.contender else None
    return {
        "method": row.method,
        "axes": dict(row.axes),
        "label": row.label,
        "year": row.year,
        "recipe": row.recipe,
        "protocol": row.config.protocol.name,
        "validated": row.config.protocol.name != "paper",
        "trainings": len(row.trainings),
        "seeds": study_row.seeds if study_row else 0,
        "trials": len(row.trials),
        "seconds": study_row.seconds if study_row else None,
        "scores": {
            metric: {
                "published": _fraction(row.published, metric),
                "ours": found.as_mapping(),
                "difference": row.difference(metric),
                "concatenated": joined.as_mapping() if joined else None,
            }
            for metric, found in row.ours.items()
            for joined in [row.concatenated.get(metric)]
        },
        "validation": {
            row.validation_metric: {
                "published": _fraction(row.published_validation, row.validation_metric),
                "ours": row.validation.as_mapping(),
            }
        }
        if row.validation
        else {},
        "tuned": row.tuned,
        "printed": {one.parameter: one.value for one in row.printed},
        "runs": [run.name for run in row.runs],
    }


def _fraction(printed: Mapping[str, Published], metric: str) -> float | None:
    """A published number as a fraction."""
    found = printed.get(metric)
    return None if found is None or found.value is None else found.value / 100

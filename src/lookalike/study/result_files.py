"""The JSON files that store the results of a study.

    STUDY/study.json                          the study: data sets, rows, protocol, tuner, seeds
    STUDY/<data set>/<method>.json            trials, the best one, its repeats
    STUDY/<data set>/<method>,<value>....json the same at values of axes
    STUDY/<data set>/baselines.json           the untrained network, PCA, LDA
    STUDY/<data set>/<row>.classes.npz        scores per test class, by repeat and fold

A method's file grows while the study runs; ``load_results`` reads finished and unfinished studies.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from lookalike.errors import BadInput
from lookalike.files import read_json, write_json
from lookalike.study.classes import RowClasses, classes_file, read_classes, write_classes
from lookalike.study.results import (
    BaselineRow,
    MethodRow,
    PlannedRow,
    StudyResults,
    Tested,
    label_of,
)

FORMAT = 1
"""Version of the file format; files of another version are an error."""
Row = TypeVar("Row")


@dataclass(frozen=True)
class DataBlock:
    """What is read of a data set's settings."""

    name: str


@dataclass(frozen=True)
class Settings:
    """What is read of the study's settings; the others are shown as they are."""

    data: tuple[DataBlock, ...] | None = None
    workers: int = 1


@dataclass(frozen=True)
class Head:
    """What reading the rows of a ``study.json`` needs."""

    datasets: tuple[str, ...]
    study: Settings
    metric: str
    planned: tuple[PlannedRow, ...]


def is_file_name(name: str) -> bool:
    """Whether a name is that of one file or folder, and leads nowhere else.

    >>> is_file_name("cub, small"), is_file_name("../cub"), is_file_name("")
    (True, False, False)
    """
    return bool(name) and name not in (".", "..") and not set(name) & {"/", "\\", "\0"}


def load_results(folder: Path | str) -> StudyResults:
    """The study in the folder of a ``study.json``, finished or not, and all rows that exist."""
    folder = Path(folder)
    path = folder / "study.json"
    if not path.is_file():
        raise BadInput(f"'{folder}' does not hold a study: it has no study.json")
    head = _read(path)
    told = _parse(path, Head, head)
    for dataset in (*told.datasets, *(row.dataset for row in told.planned)):
        if not is_file_name(dataset):
            raise BadInput(
                f"'{path}': the data set {dataset[:80]!r} cannot be the name of a folder"
            )
    found = (read_method(folder, *row.key) for row in told.planned)
    rows = [row for row in found if row is not None]
    baselines = [row for dataset in told.datasets for row in read_baselines(folder, dataset)]
    for row in rows:
        for repeat in row.repeats:
            where = row_file(folder, row.dataset, row.label)
            _refuse_untested(repeat, told.metric, f"'{where}' is damaged: repeat {repeat.number}")
    for base in baselines:
        where = row_file(folder, base.dataset, "baselines")
        _refuse_untested(base, told.metric, f"'{where}' is damaged: {base.baseline[:80]!r}")
    parts = {"folder": folder, "planned": told.planned, "rows": rows, "baselines": baselines}
    return _parse(path, StudyResults, head | parts)


def without_folders(text: str) -> str:
    """A text in which only the last part is left of paths: results are shown to others.

    >>> without_folders("cannot read the image '/home/me/photos/1.jpg': broken")
    "cannot read the image '1.jpg': broken"
    >>> without_folders("/home/my self/weights.pt"), without_folders("https://example.org/a/b")
    ('weights.pt', 'https://example.org/a/b')
    """
    if text.startswith(("/", "~/")) and "\n" not in text:
        return text.rstrip("/").rpartition("/")[2]
    return re.sub(r"(?<![\w:/.])~?/(?:[^\s/'\"]+/)+", "", text)


def _for_others(value: Any) -> Any:
    """A value of JSON with every text :func:`without_folders`."""
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Mapping):
        return {key: _for_others(one) for key, one in value.items()}
    return [_for_others(one) for one in value] if isinstance(value, list | tuple) else value


def write_study(results: StudyResults) -> None:
    """Write ``study.json``; rows have their own files."""
    names = ("name", "metric", "datasets", "methods", "facts", "study")
    values = {name: getattr(results, name) for name in names}
    values["planned"] = [dataclasses.asdict(row) for row in results.planned]
    values = _for_others(values)
    write_json(results.folder / "study.json", {"format": FORMAT} | values, sealed=True)


def row_file(folder: Path, dataset: str, label: str) -> Path:
    """The file of one row."""
    return folder / dataset / f"{label.replace(', ', ',').replace('/', '-')}.json"


def write_method(folder: Path, row: MethodRow, classes: RowClasses | None = None) -> None:
    """Write the file of one row, and its scores per test class."""
    path = row_file(folder, row.dataset, row.label)
    write_classes(classes_file(path), classes or RowClasses())
    values = _for_others(dataclasses.asdict(row))
    write_json(path, {"format": FORMAT} | values, sealed=True)


def _refuse_untested(tested: Tested, metric: str, what: str) -> None:
    """Refuse test scores without that of the study's metric."""
    if any(metric not in scores for scores in (*tested.separate, tested.concatenated)):
        raise BadInput(f"{what} has no score {metric!r}")


def read_method(folder: Path, dataset: str, label: str) -> MethodRow | None:
    """The file of one row, if it exists."""
    path = row_file(folder, dataset, label)
    return _parse(path, MethodRow, _read(path)) if path.is_file() else None


def method_classes(folder: Path, row: MethodRow) -> RowClasses | None:
    """The scores per test class of a row, if they were kept."""
    return read_classes(classes_file(row_file(folder, row.dataset, row.label)))


def baseline_classes(folder: Path, row: BaselineRow) -> RowClasses | None:
    """The scores per test class of a baseline, if they were kept."""
    return read_classes(_baseline_file(folder, row))


def _baseline_file(folder: Path, row: BaselineRow) -> Path:
    axes = {"group": row.group} if row.group and row.group != row.dataset else {}
    label = label_of("baselines", axes | {"baseline": row.baseline})
    return classes_file(row_file(folder, row.dataset, label))


def write_baselines(
    folder: Path,
    dataset: str,
    rows: tuple[BaselineRow, ...],
    classes: Mapping[tuple[str, str], RowClasses] | None = None,
) -> None:
    """Write the baselines of one data set; ``classes`` by group and baseline."""
    for row in rows:
        found = (classes or {}).get((row.group, row.baseline))
        write_classes(_baseline_file(folder, row), found or RowClasses())
    values = [dataclasses.asdict(row) for row in rows]
    content = {"format": FORMAT, "baselines": values}
    write_json(folder / dataset / "baselines.json", content, sealed=True)


def read_baselines(folder: Path, dataset: str) -> tuple[BaselineRow, ...]:
    """The baselines of one data set, if they exist."""
    path = folder / dataset / "baselines.json"
    if not path.is_file():
        return ()
    rows = _read(path).get("baselines")
    return _parse(path, tuple[BaselineRow, ...], rows)


def _read(path: Path) -> dict[str, Any]:
    """The mapping in a results file of this format."""
    values = read_json(path)
    found = values.pop("format", None) if isinstance(values, dict) else None
    if found != FORMAT:
        shown = found if isinstance(found, int) and abs(found) < 10**6 else "of something else"
        raise BadInput(f"'{path}' has the format {shown}, and this version reads {FORMAT}")
    return dict(values)


def _parse(path: Path, kind: type[Row], values: Any) -> Row:
    """A value of ``kind`` from the content of a file."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part)[:80] for part in first["loc"])
        raise BadInput(f"'{path}': {place}: {' '.join(first['msg'].split())[:300]}") from error

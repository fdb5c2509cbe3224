"""Every file of an index against its checksum."""

from pathlib import Path

import numpy as np

from lookalike.progress import Watcher
from lookalike.search.folder.disk import Damaged
from lookalike.search.folder.manifest import Manifest
from lookalike.search.folder.snapshot import Snapshot


def damage_of(folder: Path, watcher: Watcher) -> list[str]:
    """Why the files of an index cannot be trusted, a sentence for each; empty: they can.

    Args:
        folder: The folder of the index.
        watcher: Is told the progress.

    Returns:
        The sentences.

    Raises:
        BadInput: There is no index.
    """
    while True:
        try:
            manifest = Manifest.read(folder)
            snapshot = Snapshot(folder, manifest)
        except FileNotFoundError as error:
            if Manifest.read(folder).generation != manifest.generation:
                continue
            return [f"'{error.filename}' is missing"]
        except Damaged as error:
            return [str(error)]
        break
    return [*changed_files(folder, manifest, watcher), *wrong_ids(snapshot)]


def changed_files(folder: Path, manifest: Manifest, watcher: Watcher) -> list[str]:
    """Files with another content than they were written with."""
    found = []
    for number, (name, note) in enumerate(manifest.files.items(), 1):
        try:
            note.refuse_size(folder, folder / name)
            note.refuse_content(folder, folder / name)
        except Damaged:
            found.append(f"the content of {name} has changed")
        except FileNotFoundError:
            if Manifest.read(folder).generation == manifest.generation:
                found.append(f"{name} is missing")
        watcher.stage("checking files", number, len(manifest.files))
    return found


def wrong_ids(snapshot: Snapshot) -> list[str]:
    """Pictures that are there twice, or ids that are not ascending."""
    found = []
    for segment in snapshot.segments:
        if not (np.diff(segment.ids) > 0).all():
            found.append(f"the ids of segment {segment.note.name} are not ascending")
    ids = snapshot.layout[0]
    if len(np.unique(ids)) != len(ids):
        found.append("an id occurs twice")
    return found

"""Saved files whose content was changed and whose digest was computed again: what a forger would write."""

import numpy as np

from safe2real.model import archive as archives
from safe2real.model.archive import Archive


def rewritten(kind, path, target, change):
    """Write the archive of `kind` at `path` to `target` after `change(archive)`; returns the target."""
    archive = Archive.load(path, kind, format=1)
    change(archive)
    members = {**archive.arrays, "document": np.frombuffer(archives.to_text(archive.document).encode(), dtype=np.uint8)}
    np.savez(target, **members, digest=archives._digest(members))
    return target


def array(name, change):
    """Change the array `name`."""
    return lambda archive: archive.arrays.update({name: change(archive.arrays[name].copy())})


def entry(*path, value):
    """Set the entry of the document at `path`."""

    def changed(archive):
        place = archive.document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return changed

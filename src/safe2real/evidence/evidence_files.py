"""Evidence alone in one file: the problem that it is about, and all that was counted and concluded.

For what is computed from evidence without a learner: `certify`, `plan`, `map_mismatch`. A learner's own file has its method
and where it stands as well (`Learner.save`).
"""

from __future__ import annotations

import os
from pathlib import Path

from safe2real.errors import InvalidInput
from safe2real.evidence.evidence import Evidence
from safe2real.evidence.stored import put_evidence, take_evidence
from safe2real.evidence.tied import evidence_for
from safe2real.model.archive import Archive
from safe2real.model.encoding import to_text
from safe2real.model.naming import Extensions
from safe2real.problem.document import to_document
from safe2real.problem.problem import Problem

KIND, _FORMAT = "evidence", 1


def save_evidence(evidence: Evidence, path: str | os.PathLike[str]) -> Path:
    """Write evidence to `path`, over an older file; nothing is pickled, and nothing is changed.

    Raises:
        InvalidInput: it is of a class from outside the package, or keeps the returns of a policy on trial, which mean
            nothing without that policy: save the learner.
        StorageFailure: it cannot be written.
    """
    if evidence.returns is not None:
        raise InvalidInput("the evidence keeps the returns of a policy on trial; save its learner: learner.save(path)")
    archive = Archive(KIND)
    archive.document = {
        "specification": to_document(evidence.problem),
        "reuses_simulator": evidence.reuses_simulator,
        "keeps_safe": evidence.keeps_safe,
    }
    put_evidence(archive, evidence)
    return archive.save(path, format=_FORMAT)


def load_evidence(path: str | os.PathLike[str], *, extensions: Extensions = ()) -> Evidence:
    """What `save_evidence` wrote, of its own; reading it runs no code. `extensions` are radii from elsewhere.

    Raises:
        InvalidInput: the file is damaged, was changed, or is of another kind or of a newer release.
    """
    archive = Archive.load(path, KIND, format=_FORMAT)
    problem = Problem.from_text(to_text(archive.entry("specification", dict)), extensions=extensions)
    flags = {name: archive.entry(name, bool) for name in ("reuses_simulator", "keeps_safe")}
    evidence = evidence_for(problem, **flags)
    take_evidence(archive, evidence)
    return evidence

"""What takes long and is done beside the campaign: the check of a whole record, and copies of it for other programs."""

from __future__ import annotations

import secrets
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import IO, Any

from safe2real.campaign.campaign import Campaign
from safe2real.campaign.documents import ledger_document
from safe2real.campaign.events import now
from safe2real.campaign.journal.url import shown_place
from safe2real.errors import Safe2RealError
from safe2real.report.export import export_csv, export_json
from safe2real.service.problems import hidden

RUNNING, DONE, FAILED = "running", "done", "failed"


class Verification:
    """One check of a record, by an object and a thread of its own; others ask and tell meanwhile."""

    def __init__(self, place: str, head: str | None, by: str) -> None:
        self.id, self.by, self.began = secrets.token_hex(8), by, now()
        self.state, self.ended = RUNNING, ""
        self._place, self.head = place, head
        self._done, self._total = 0, 0
        self._ledger: Any = None
        self._problem: str | None = None
        # A server that is told to stop does not wait for it: a check leaves nothing behind.
        threading.Thread(target=self._run, name="verify", daemon=True).start()

    def _run(self) -> None:
        try:
            with Campaign.open(self._place) as campaign:
                self._ledger = ledger_document(campaign.verify(head=self.head, progress=self._progress))
            self.state = DONE
        except Safe2RealError as error:
            # Clients need not know where the record is kept.
            self._problem, self.state = hidden(str(error).replace(shown_place(self._place), "the campaign")), FAILED
        finally:
            if self.state == RUNNING:  # a mistake, which the thread shows on standard error
                self._problem, self.state = "a mistake of safe2real; please report it", FAILED
            self.ended = now()

    def _progress(self, done: int, total: int) -> None:
        self._done, self._total = done, total

    def document(self) -> dict[str, Any]:
        """How far it is, and what it found."""
        return {
            "job": self.id,
            "by": self.by,
            "head": self.head,
            "state": self.state,
            "began": self.began,
            "ended": self.ended or None,
            "done": self._done,
            "total": self._total,
            "ledger": self._ledger,
            "problem": self._problem,
        }


def exported(place: str, form: str) -> tuple[IO[bytes], int]:
    """The whole record, JSON or three tables in a zip, and its size in bytes.

    The file has no name any more when it is returned, so that nothing is left of it, however its reader ends.
    """
    with tempfile.TemporaryDirectory(prefix="safe2real-export-") as folder, Campaign.open(place) as campaign:
        file = Path(folder) / "record"
        if form == "json":
            export_json(campaign, file)
        else:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
                for table in export_csv(campaign, Path(folder) / "tables"):
                    packed.write(table, table.name)
        return file.open("rb"), file.stat().st_size

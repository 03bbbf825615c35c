"""Tasks that workers find by their names; they leave a note of every start, so that what ran twice is seen."""

import os
import signal
import threading
import time
import uuid
from pathlib import Path


def square(number: int) -> int:
    return number * number


def noted(task: tuple[str, int, float]) -> tuple[int, int]:
    """(folder, number, seconds) -> (number, its square); every start leaves a file `number.pid.unique` in the folder."""
    folder, number, seconds = task
    (Path(folder) / f"{number}.{os.getpid()}.{uuid.uuid4().hex[:8]}").touch()
    time.sleep(seconds)
    return number, number * number


def killed_once(task: tuple[str, int]) -> int:
    """Number 3 ends its process the first time; all others are left alone."""
    folder, number = task
    mark = Path(folder) / "killed"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def always_killed(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def failing(number: int) -> int:
    if number == 2:
        raise ValueError("number 2 is a mistake")
    return number


def process(_: int) -> int:
    time.sleep(0.05)
    return os.getpid()


_TWO = threading.Barrier(2)


def beside_another(_: int) -> tuple[int, int]:
    """(process, cores of the task), once two threads of one process are here."""
    _TWO.wait(timeout=20.0)
    return os.getpid(), available(0)


def available(_: int) -> int:
    from safe2real.parallel import cores

    return cores()

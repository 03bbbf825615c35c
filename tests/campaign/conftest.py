"""What takes long to start is started once: a process that forks others, and a PostgreSQL server."""

import pytest

from tests.campaign.systems import Nursery
from torture.servers import NoServer, running_server


@pytest.fixture
def place(tmp_path):
    return tmp_path / "campaign.db"


@pytest.fixture(scope="session")
def nursery():
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="session")
def server():
    try:
        with running_server() as server:
            yield server
    except NoServer as error:
        pytest.skip(str(error))

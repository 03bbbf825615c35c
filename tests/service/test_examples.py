"""The workers of examples/: in Python, and with curl alone."""

import shutil
import subprocess
import sys

import pytest

from safe2real.client import RemoteCampaign
from safe2real.service.campaign_pool import Service
from safe2real.service.storage import places_at
from tests.campaign.systems import ROOT, three_states
from tests.service.servers import listening


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(places_at(str(tmp_path_factory.mktemp("campaigns"))))
    ann = service.tokens.add("ann", "operator")
    with (
        listening(service) as url,
        RemoteCampaign.create(f"{url}/campaigns/arm", three_states().specification, ann) as campaign,
    ):
        yield url, service.tokens.add("cell-3", "worker"), campaign


def test_in_python(service, monkeypatch):
    url, token, campaign = service
    monkeypatch.setenv("SAFE2REAL_TOKEN", token)
    before = campaign.status(forecast=False).told
    sys.path.insert(0, str(ROOT / "examples"))
    import service_worker

    service_worker.main(f"{url}/campaigns/arm", 3)
    assert campaign.status(forecast=False).told == before + 3


def test_with_curl_alone(service, tmp_path):
    if not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("no curl or no jq here")
    url, token, campaign = service
    before = campaign.status(forecast=False).told
    (tmp_path / "token.curl").write_text(f'header = "Authorization: Bearer {token}"\n')
    command = ["sh", "examples/service_worker.sh", f"{url}/api/v1/campaigns/arm", str(tmp_path / "token.curl"), "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["recorded", "recorded"]
    assert campaign.status(forecast=False).told == before + 2
    assert token not in done.stdout + done.stderr


def test_a_worker_in_thirty_lines():
    code = (ROOT / "examples" / "service_worker.py").read_text().split('"""', 2)[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 30

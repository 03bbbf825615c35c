"""Where campaigns are kept: a schema each on PostgreSQL, with the same service before it."""

from safe2real.campaign import Campaign
from tests.campaign.systems import three_states
from tests.service.servers import API, problem_document, serving


def test_a_database_holds_many_campaigns_and_the_tokens(server):
    place = server.url(server.new_database())
    with serving(place) as client:
        body = {"name": "left-leg", "problem": problem_document(three_states())}
        assert client.by("operator", "POST", API, json=body).status_code == 201
        again = client.by("operator", "POST", API, json=body)
        assert (again.status_code, again.json()["kind"]) == (409, "conflict")
        assert place not in again.text
        assert client.service.places.names() == ["arm", "left-leg"]
        asked = client.ask().json()["deployments"][0]
        assert client.tell(asked).json()["new"]
        with Campaign.open(client.service.places.place_of("arm")) as campaign:
            assert campaign.events()[-1].worker == "worker"
            assert campaign.verify().holds
        with Campaign.open(client.service.places.place_of("left-leg")) as campaign:
            assert len(campaign.events()) == 1
        assert client.by("auditor", "GET", f"{API}/left-leg/status").json()["rounds"] == 0


def test_a_file_that_is_no_campaign_hides_no_other(tmp_path):
    (tmp_path / "broken.db").write_text("this is no database")
    (tmp_path / "Notes.db").write_text("and this has no name that a campaign can have")
    with serving(tmp_path) as client:
        found = {one["name"]: one["problem"] for one in client.by("auditor", "GET", API).json()["campaigns"]}
        assert set(found) == {"arm", "broken"}
        assert found["arm"] is None
        assert "not an SQLite database" in found["broken"]
        assert str(tmp_path) not in found["broken"]

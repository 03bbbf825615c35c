"""The page in a real browser: what it shows, to whom, and how soon."""

import re
import signal
import threading
import time
from datetime import datetime

import numpy as np
import pytest

from safe2real.campaign import Campaign
from safe2real.campaign.backup import back_up
from safe2real.exploration.forecast import Forecast
from tests.campaign.systems import paper_grid, run_rounds, three_states
from tests.service.browser import Command, Site, findings, site, told
from tests.service.servers import put_back

LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}


@pytest.fixture
def arm(tmp_path):
    with site(tmp_path) as found:
        yield found
        assert found.mistakes == []
        assert all(one.startswith((found.url, "blob:")) for one in found.addresses)  # no third party


@pytest.mark.slow
def test_events_arrive_and_a_refutation_turns_the_page_red(chromium, arm):
    worker = arm.token("robot", "worker")
    page = arm.open(chromium, token=arm.token("officer", "auditor"))
    page.wait_for_selector("body[data-standing=certified][data-live=true]")
    arm.tell(worker, arm.ask(worker))
    page.wait_for_selector("tr[data-sequence='3']")  # create, ask, tell
    assert page.locator("#standing-title").inner_text() == "CERTIFIED"
    assert "expected upright >= 1.5" in page.locator("#requirements").inner_text()
    assert findings(page) == []
    arm.fall_off(worker)
    page.wait_for_selector("body[data-standing=refuted]", timeout=2_000)
    red, green, blue = page.evaluate(
        "getComputedStyle(document.getElementById('standing')).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    )
    assert red > 150
    assert max(green, blue) < 60
    assert page.title().startswith("✖ REFUTED: arm")
    told(page, "NO GUARANTEE: see the standing above")
    assert "What was assumed" in page.inner_text("#assumptions")
    assert findings(page) == []


@pytest.mark.slow
def test_each_event_of_three_workers_is_shown_within_two_seconds(chromium, arm, tmp_path):
    tokens = [arm.token(f"robot-{number}", "worker") for number in range(3)]
    page = arm.open(chromium, token=arm.token("officer", "auditor"))
    page.wait_for_selector("body[data-live=true]")

    def work(token):
        for _ in range(40):
            arm.tell(token, arm.ask(token))
            time.sleep(0.1)

    threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        page.wait_for_timeout(200)
    page.wait_for_selector("tr[data-sequence='241']")
    arrivals = page.evaluate("window.arrivals")
    with Campaign.open(tmp_path / "arm.db") as campaign:
        events = campaign.events()[1:]
    late = [arrivals[str(event.sequence)] / 1000.0 - datetime.fromisoformat(event.at).timestamp() for event in events]
    print(f"{len(late)} events: median {np.median(late):.3f} s, latest {max(late):.3f} s")
    assert len(late) == 240
    assert max(late) < 2.0
    assert {event.worker for event in events if event.kind == "ask"} == {"robot-0", "robot-1", "robot-2"}


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_every_look_is_accessible_and_fits(chromium, arm, look):
    worker, officer = arm.token("robot", "worker"), arm.token("officer", "operator")
    for _ in range(5):
        arm.tell(worker, arm.ask(worker))
    arm.ask(worker)
    for path in ("/", "/campaigns/arm"):
        page = arm.open(chromium, path, token=officer, **LOOKS[look])
        page.wait_for_selector("body[data-live=true]")
        if path != "/":
            page.wait_for_selector("#rows tbody tr")
        assert findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("#theme")
    assert findings(page) == []


@pytest.mark.slow
def test_a_token_is_typed_once_kept_for_the_tab_and_never_in_an_address(chromium, arm):
    token = arm.token("officer", "auditor")
    page = arm.open(chromium, token="s2r_" + "x" * 40)
    told(page, "The token was not accepted")
    assert findings(page) == []
    page.fill("#token", token)
    page.click("#token-form button")
    told(page, "officer (auditor)")
    page.reload()
    told(page, "officer (auditor)")
    assert token not in page.content()
    assert token not in page.evaluate("JSON.stringify(localStorage) + document.cookie")
    assert not any(token in address for address in arm.addresses)
    page.click("#forget")
    page.wait_for_selector("#token", state="visible")
    assert page.evaluate("sessionStorage.length") == 0


@pytest.mark.slow
def test_what_is_overdue_is_offered_for_abandoning_to_operators_alone(chromium, tmp_path):
    with site(tmp_path, lease=2.0) as arm:
        worker = arm.token("<img src=x onerror=alert(1)>", "worker")
        page = arm.open(chromium, token=arm.token("auditor", "auditor"))
        page.wait_for_selector("body[data-live=true]")
        arm.ask(worker)
        told(page, "1 out, 0 overdue")
        told(page, "OVERDUE")  # a silent fleet sends nothing: the page knows by the lease
        colours = "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one.parentNode).backgroundColor]"
        assert len(set(page.locator(".overdue-count").first.evaluate(colours))) == 2  # seen from afar
        assert page.locator(".abandon").count() == 0
        page = arm.open(chromium, token=arm.token("officer", "operator"))
        told(page, "<img src=x onerror=alert(1)>")  # as a text
        page.click(".abandon")
        assert "longer than the lease" in page.input_value("#abandon-reason")
        assert findings(page) == []
        page.fill("#abandon-reason", "the machine lost its power")
        page.click("#abandon-confirm")
        page.wait_for_selector("#given-up-list td:has-text('the machine lost its power')")
        told(page, "Nothing is out.")
        told(page, "by officer")
        assert arm.mistakes == []


@pytest.mark.slow
def test_plans_for_typed_and_uploaded_rewards(chromium, arm, tmp_path):
    page = arm.open(chromium, token=arm.token("officer", "auditor"))
    page.wait_for_selector("body[data-live=true]")
    page.fill("#reward", "nowhere = 1")
    page.click("#plan-button")
    told(page, '"nowhere" is no state')
    page.fill("#reward", "1 = 1\n0, 1 = 0.5")
    page.click("#plan-button")
    told(page, "Keep the plan")
    typed = page.inner_text("#plan-result")
    assert "Proved: expected upright >=" in typed
    least, most = (float(one) for one in re.findall(r"between ([0-9.]+) and ([0-9]+(?:[.][0-9]+)?)", typed)[0])
    with Campaign.open(tmp_path / "arm.db") as campaign:
        plan = campaign.plan(np.array([[0.0, 0.5], [1.0, 1.0], [0.0, 0.0]]))
    assert plan.value - 1e-3 < least <= plan.value < plan.bound <= most < plan.bound + 1e-3
    assert page.locator("#plan-result svg rect").count() == 1
    assert findings(page) == []
    np.save(tmp_path / "reward.npy", np.array([[0.0, 0.5], [1.0, 1.0], [0.0, 0.0]]))
    page.set_input_files("#reward-file", tmp_path / "reward.npy")
    page.evaluate("document.getElementById('plan-result').replaceChildren()")
    page.click("#plan-button")
    told(page, "Keep the plan")
    assert page.inner_text("#plan-result") == typed


@pytest.mark.slow
def test_a_plan_that_is_not_certified_is_not_called_proved(chromium, tmp_path):
    with site(tmp_path, system=paper_grid()) as arm:
        page = arm.open(chromium, token=arm.token("officer", "auditor"))
        page.wait_for_selector("body[data-standing=heuristic][data-live=true]")
        page.fill("#reward", "24 = 1")
        page.click("#plan-button")
        told(page, "Keep the plan")
        said = page.inner_text("#plan-result")
        assert "Proved" not in said
        assert "Computed, NO GUARANTEE: " in said
        assert "Computed: earns at least" in said
        assert findings(page) == []
        assert arm.mistakes == []


@pytest.mark.slow
def test_verify_says_whether_the_record_holds_and_a_reload_says_it_again(chromium, arm):
    worker = arm.token("robot", "worker")
    for _ in range(3):
        arm.tell(worker, arm.ask(worker))
    page = arm.open(chromium, token=arm.token("officer", "auditor"))
    page.wait_for_selector("body[data-live=true]")
    page.fill("#head", "0" * 64)
    page.click("#verify-button")
    told(page, "THE RECORD DOES NOT HOLD.")
    page.fill("#head", page.inner_text("#digest"))
    page.click("#verify-button")
    told(page, "The record holds.")
    page.reload()
    told(page, "Checked for officer")


@pytest.mark.slow
def test_the_map_is_filtered_and_walked_by_keyboard(chromium, arm):
    page = arm.open(chromium, token=arm.token("officer", "auditor"))
    told(page, "6 of 6 rows")
    page.fill("#rows-search", "state 1 action 0")
    told(page, "1 of 6 rows")
    page.fill("#rows-search", "")
    page.select_option("#rows-verdict", label="wrong")
    told(page, "0 of 6 rows")
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    told(page, "state 0, action 1: open")


@pytest.mark.slow
def test_an_open_door_is_shown(chromium, tmp_path):
    with site(tmp_path, auth=False) as arm:
        for path in ("/", "/campaigns/arm"):
            page = arm.open(chromium, path)
            told(page, "No authentication.")
            assert findings(page) == []


def test_a_long_forecast_keeps_nobody_who_watches_waiting(tmp_path, monkeypatch):
    began, over = threading.Event(), threading.Event()

    def long_forecast(_):
        began.set()
        over.wait(30.0)
        return Forecast(None, None)

    monkeypatch.setattr("safe2real.campaign.campaign.rehearsed", long_forecast)
    with site(tmp_path, auth=False) as arm:
        waiting = threading.Thread(target=arm.call, args=("", "GET", "/status?forecast=true"))
        waiting.start()
        assert began.wait(10.0)
        try:
            assert arm.call("", "GET", "/status")["standing"] == "certified"
        finally:
            over.set()
            waiting.join()


@pytest.mark.slow
def test_a_page_without_its_server_says_so_and_goes_on_where_it_was(chromium, tmp_path):
    system = three_states()
    Campaign.create(tmp_path / "arm.db", system.specification).close()
    server = Command(tmp_path, "--no-auth")
    arm = Site(server.url, None, system)
    page = arm.open(chromium)
    page.wait_for_selector("body[data-live=true]")
    arm.call("", "POST", "/ask", {"worker": "robot"})
    page.wait_for_selector("tr[data-sequence='2']")
    server.end(signal.SIGKILL)
    told(page, "NOT LIVE since")
    assert findings(page) == []
    with Campaign.open(tmp_path / "arm.db") as campaign:  # what happens meanwhile is told later
        run_rounds(campaign, system, 30, "robot")
    server.start()
    page.wait_for_selector("body[data-live=true]", timeout=30_000)
    for sequence in range(2, 62):
        page.wait_for_selector(f"tr[data-sequence='{sequence}']", state="attached")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.context.close()
    server.end()
    assert arm.mistakes == []


@pytest.mark.slow
def test_an_open_page_follows_a_record_that_was_restored(chromium, tmp_path):
    system, place = three_states(), tmp_path / "arm.db"
    with Campaign.create(place, system.specification) as campaign:
        run_rounds(campaign, system, 1)
        back_up(place, tmp_path / "copy")
        run_rounds(campaign, system, 20)
    server = Command(tmp_path, "--no-auth")
    arm = Site(server.url, None, system)
    page = arm.open(chromium)
    page.wait_for_selector("tr[data-sequence='43']")
    server.end(signal.SIGKILL)
    put_back(place, tmp_path / "copy")
    with Campaign.open(place) as campaign:
        campaign.branch("restored")
    server.start()
    told(page, "The record went back")
    page.wait_for_selector("tr[data-sequence='43']", state="detached")
    page.wait_for_selector("body[data-standing=certified][data-live=true]")
    deployment = arm.call("", "POST", "/ask", {"worker": "robot"})["deployments"][0]
    episode = {"states": [0], "actions": [deployment["policy"]["actions"][0][0]], "left_model": True}
    arm.call("", "POST", f"/deployments/{deployment['id']}/tell", episode)
    page.wait_for_selector("body[data-standing=refuted]", timeout=2_000)
    assert page.inner_text("#digest") == arm.call("", "GET", "/status")["head"]
    page.context.close()
    server.end()
    assert arm.mistakes == []


@pytest.mark.slow
def test_a_page_that_shows_another_head_than_it_is_told_is_not_live(chromium, arm):
    page = arm.open(chromium, token=arm.token("officer", "auditor"))
    page.wait_for_selector("body[data-live=true]")
    alive = 'event: alive\ndata: {"events": 9, "head": "another"}\n\n'
    page.route("**/stream", lambda route: route.fulfill(body=alive, content_type="text/event-stream"))
    page.reload()
    told(page, "NOT LIVE since")
    told(page, "the record ends with another event (9) than this page shows")


@pytest.mark.slow
def test_a_fresh_page_has_no_error_in_verify(chromium, arm):
    page = arm.open(chromium, token=arm.token("officer", "auditor"))
    page.wait_for_selector("body[data-live=true]")
    asked = []
    page.on("request", lambda request: asked.append(request.url.rsplit("/campaigns/", 1)[-1]))
    with page.expect_response(lambda answer: answer.url.endswith("/verify")):
        page.reload()
    page.wait_for_timeout(1_500)  # longer than the page waits between two looks at a check
    assert page.locator("#verify-progress *").count() == 0
    assert [url for url in asked if "/verify/" in url] == []
    assert page.inner_text("#verify-problem") == ""


@pytest.mark.slow
def test_a_refuted_page_says_what_to_do_and_which_machines_to_stop(chromium, tmp_path):
    with site(tmp_path, lease=1.0) as arm:
        workers = {name: arm.token(name, "worker") for name in ("mixed-1", "mixed-2", "falls", "careful")}
        while (mixed := arm.ask(workers["mixed-1"]))["reason"] != "MIXTURE":
            arm.tell(workers["mixed-1"], mixed)
        other = arm.ask(workers["mixed-2"])
        page = arm.open(chromium, token=arm.token("officer", "operator"))
        page.wait_for_selector("body[data-standing=certified][data-live=true]")
        assert page.is_hidden("#what-to-do")
        told(page, "2 overdue")
        orange = "getComputedStyle(document.querySelector('#numbers .overdue-count')).backgroundColor"
        assert page.evaluate(orange) == "rgb(253, 240, 213)"
        arm.fall_off(workers["falls"])
        baseline = arm.ask(workers["careful"])
        page.wait_for_selector("body[data-standing=refuted]")
        told(page, baseline["id"])
        for held in (mixed, other):  # the banner turns red with the event, the list follows with the status
            page.wait_for_selector(f"#what-to-do:has-text('{held['id']}')")
        said = page.inner_text("#what-to-do")
        assert "Handed out now: the baseline alone, without a guarantee" in said
        for name, held in (("mixed-1", mixed), ("mixed-2", other)):
            assert f"{name} ({held['id']})" in said
        assert "Stop these machines" in said
        assert "stop it on site" in said
        assert "careful" not in said
        assert page.locator("tr.refuted").count() == 2
        assert baseline["reason"] == "BASELINE"
        assert findings(page) == []
        page.click("#theme")
        assert findings(page) == []
        overview = arm.open(chromium, "/", token=arm.token("second", "operator"))
        told(overview, "3 overdue")
        assert findings(overview) == []
        arm.ask(workers["mixed-1"])  # which says that it is withdrawn
        told(page, "Stop this machine")
        assert "mixed-1" not in page.inner_text("#what-to-do")
        assert arm.mistakes == []

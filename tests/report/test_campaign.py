"""The page about a campaign: it says what is so, names what is wrong, and its pictures show every row and violation."""

import base64
import io
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from importlib.resources import files

import numpy as np
import pytest
from jinja2 import UndefinedError
from matplotlib.image import imread

import safe2real as s2r
from safe2real import methods, radii
from safe2real.campaign import FIELD_ASSUMPTIONS, Campaign
from safe2real.campaign.status import RewardStatus
from safe2real.evidence.mismatch_map import MismatchMap, Verdict
from safe2real.evidence.row_rule import Separation
from safe2real.exploration import roll_out
from safe2real.exploration.forecast import Forecast
from safe2real.model.constraint_text import Wording, roughly, rounded_down, rounded_up
from safe2real.plots.course import Course, draw_certificate, draw_safety
from safe2real.plots.map import draw_mismatch, draw_visits_needed
from safe2real.plots.style import thinned
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from safe2real.report import campaign_report as report
from safe2real.report.campaign_report import _forecast_in_words, write_campaign_report
from safe2real.report.page import environment, render, since

ROWS = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.1, 0.9]]])
SAFE = np.array([[1.0, 1.0], [0.0, 0.0]])
HEURISTIC = {"calibrated_gap": 0.0, "radius": radii.Scaled(0.3), "bonus_scale": 0.5}
BASELINE = s2r.MarkovPolicy.uniform(horizon=3, num_states=2, num_actions=2)


def specification(known=None, **changes):
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS), 3, 0, s2r.AtLeast(SAFE, 0.2, "on <the> track"))
    settings = {"margin": 0.8, "calibrated_gap": 0.05, "mismatch_gap": 0.7, "tolerance": 0.1} | changes
    return Problem(model, BASELINE, Settings.paper(**settings), known)


def reality(rows=ROWS):
    return specification().simulator.with_kernel(s2r.Kernel.from_dense(rows))


def episode(deployment, real):
    return roll_out(real, deployment.policy, seed=3, round_number=deployment.number)


def page_of(campaign, folder):
    path = write_campaign_report(campaign, folder / "page.html")
    assert [file.name for file in folder.glob("*page*")] == ["page.html"]  # and no draft of it
    return path.read_text()


def label(text, kind=""):
    """A coloured label as it stands in a page."""
    return f"<span class='{f'label {kind}'.strip()}'>{text}</span>"


def words(page):
    """The text that a reader sees."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", page)))


def section(page, title):
    """From a heading to the next."""
    return next(part for part in re.split(r"<h[23]>", page) if part.startswith(title))


def pictures(page):
    """Every image, decoded: [height, width, 4]."""
    return [imread(io.BytesIO(base64.b64decode(data))) for data in re.findall(r"base64,([^']+)'", page)]


@pytest.fixture
def unpainted(monkeypatch):
    """Figures are made and not painted: that takes longest."""
    monkeypatch.setattr(report, "_png", lambda figure: b"")


def test_a_heuristic_campaign_is_labelled_and_promises_nothing(tmp_path, unpainted):
    with Campaign.create(tmp_path / "c.db", specification(**HEURISTIC)) as campaign:
        for _ in range(7):
            one = campaign.ask(worker="w")
            campaign.tell(one.id, episode(one, reality()))
        page, status = page_of(campaign, tmp_path), campaign.status()
    text = words(page)
    assert label("HEURISTIC, not a guarantee") in page
    assert label("certified", "certified") not in page
    assert "The guarantee" not in page
    assert "0.3 x the paper's radius" in text
    assert "the bonus is 0.5 times the literal one" in page
    assert "7 rounds handed out" in text
    assert "21 samples recorded" in text
    assert f"{rounded_up(status.uncertainty)} > 0.1" in text
    assert f"{status.suspects} of 4 suspect rows left" in text
    ahead = status.forecast
    assert f"{roughly(ahead.rounds, 'round')}, {roughly(ahead.samples, 'sample')}, or several times that expected" in text
    assert status.head in page
    assert "class='warning'" not in page


def test_a_certified_campaign_states_all_its_assumptions(tmp_path, unpainted):
    with Campaign.create(tmp_path / "c.db", specification()) as campaign:
        one = campaign.ask(worker="w")
        page = page_of(campaign, tmp_path)
        assumed = campaign.ask(worker="w").certificate.assumptions
    assert label("certified", "certified") in page
    assert "HEURISTIC" not in page
    guarantee = words(section(page, "The guarantee"))
    assert set(FIELD_ASSUMPTIONS) < set(assumed)
    for assumption in assumed:
        assert str(assumption) in guarantee
    assert "at least 0.95" in guarantee
    assert "expected on <the> track >= 0.2 (sum over an episode)" in guarantee
    assert "on &lt;the&gt; track" in page
    assert f"{one.uncertainty:.4g}" in section(page, "The last 1 deployments")


def test_contradicted_rows_are_named_and_the_guarantee_is_void(tmp_path, unpainted):
    """Row (0, 0) was declared exact and is not; (1, 0) is simply wrong, beyond the larger gap; the others are right."""
    known = np.array([[True, False], [False, False]])
    rows = ROWS.copy()
    rows[0, 0], rows[1, 0] = [0.5, 0.5], [0.0, 1.0]
    simulator = ROWS.copy()
    simulator[1, 0] = [1.0, 0.0]
    model = specification().simulator.with_kernel(s2r.Kernel.from_dense(simulator))
    spec = Problem(model, BASELINE, specification().settings, known)
    with Campaign.create(tmp_path / "c.db", spec) as campaign:
        log = [roll_out(reality(rows), BASELINE, seed=1, round_number=i) for i in range(800)]
        campaign.import_log("bench", BASELINE, log)
        found, page = campaign.mismatch_map(), page_of(campaign, tmp_path)
    assert Verdict(int(found.verdict[0, 0])) is Verdict.CONTRADICTED
    assert Verdict(int(found.verdict[1, 0])) is Verdict.WRONG
    assert label("AN ASSUMPTION IS REFUTED: no guarantee", "refuted") in page
    assert label("certified", "certified") not in page
    assert "contradict an assumption about 1 row" in section(page, "No guarantee")
    for title, row in (("Contradicted rows: 1", (0, 0)), ("Wrong rows: 1", (1, 0))):
        listed = section(page, title)
        assert re.findall(r"state \d, action \d", listed) == [f"state {row[0]}, action {row[1]}"]
        ends = rounded_down(found.lower[row], 4), rounded_up(found.upper[row], 4)  # what is proved, and no more
        interval = " to ".join(f"{float(end):.4f}" for end in ends)
        for number in (f"{found.distance[row]:.4f}", interval, f"{found.visits[row]:,}"):
            assert f">{number}<" in listed


def test_a_heuristic_radius_refutes_nothing(tmp_path, unpainted):
    spec = specification(np.array([[True, False], [False, False]]), radius=radii.Scaled(0.1))
    rows = ROWS.copy()
    rows[0, 0] = [0.5, 0.5]
    with Campaign.create(tmp_path / "c.db", spec) as campaign:
        log = [roll_out(reality(rows), BASELINE, seed=1, round_number=i) for i in range(100)]
        campaign.import_log("bench", BASELINE, log)
        page = page_of(campaign, tmp_path)
    assert "REFUTED" not in page
    assert label("an assumption looks wrong") in page
    assert re.search(r"Contradicted rows: [1-4]", page)  # a radius that is too small may be wrong more than once


def test_what_is_out_waiting_cut_short_or_abandoned_is_said(tmp_path, unpainted, monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, zone=None):
            return datetime.now(zone) + timedelta(hours=5)

    monkeypatch.setattr(report, "datetime", Later)
    with Campaign.create(tmp_path / "c.db", specification()) as campaign:
        lost, out = campaign.ask_batch(2, worker="<script>alert(1)</script>")
        campaign.abandon(lost.id, "flat <battery>")
        told, short = campaign.ask_batch(2, worker="ann")
        campaign.tell(told.id, episode(told, reality()))
        whole = episode(short, reality())
        campaign.tell(short.id, s2r.Trajectory(whole.states[:2], whole.actions[:1]), partial=True)
        page = page_of(campaign, tmp_path)
    assert "<script>" not in page
    worker = "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert f"2 episodes wait to be counted until {out.id} is told, which {worker} has had for" in page
    assert f"{worker}</td>" in section(page, "Deployments that are out: 1")
    assert "5 hours" in section(page, "Deployments that are out: 1")
    assert "1 deployment abandoned (flat &lt;battery&gt;)" in page
    outside = section(page, "Deployments that are out: 1")
    assert re.findall(r"[0-9a-f]{8}-\d+-[0-9a-f]{6}", outside) == [out.id]
    rows = re.findall(r"<tr><td>(.*?)</tr>", section(page, "The last 4 deployments"))
    assert [row.split("<")[0] for row in rows] == [short.id, told.id, out.id, lost.id]
    outcomes = ["cut short", "told", "out", "abandoned"]
    assert [next(word for word in outcomes if f">{word}<" in row) for row in rows] == outcomes
    assert "2 episodes told (1 cut short)" in page


def test_only_the_last_twenty_are_listed(tmp_path, unpainted):
    with Campaign.create(tmp_path / "c.db", specification()) as campaign:
        campaign.ask_batch(25, worker="w")
        page = page_of(campaign, tmp_path)
    assert re.findall(r"<td>[0-9a-f]{8}-(\d+)", section(page, "The last 20")) == [str(n) for n in range(25, 5, -1)]


def test_the_page_stands_alone(tmp_path):
    with Campaign.create(tmp_path / "c.db", specification()) as campaign:
        campaign.ask_batch(3, worker="w")
        page = page_of(campaign, tmp_path)
    shown = pictures(page)
    assert len(shown) == 4  # certificate, safety, map, visits needed
    assert all(min(image.shape[:2]) > 100 and image[..., :3].std() > 0.05 for image in shown)
    assert len(re.findall("src=", page)) == len(re.findall("src='data:image/png;base64,", page)) == 4
    assert not re.search(r"href|url\(|@import|<link|<script", page)


UNUSUAL = ["None has been handed out yet", "no safety constraint", "${8}_{$", "no row is ever cleared", "nothing more"]


def check_page(folder, expected):
    """Nothing asked yet; no constraint; many of them; a simulator that is never trusted; a stop before the first round."""
    settings = specification().settings
    kernel = s2r.Kernel.from_dense(ROWS)
    many = [s2r.AtLeast(SAFE, 0.01 * k, f"${k}_{{$") for k in range(9)]  # which Matplotlib would take for mathematics
    spec, rounds = {
        "None has been handed out yet": (specification(), 0),
        "no safety constraint": (Problem(s2r.CMDP.of(kernel, 3, 0), BASELINE, settings), 2),
        "${8}_{$": (Problem(s2r.CMDP.of(kernel, 3, 0, many), BASELINE, settings), 2),
        "no row is ever cleared": (specification(), 2),
        "nothing more": (specification(tolerance=3.0, radius=radii.Scaled(1.0)), 0),
    }[expected]
    method = methods.RewardFree() if expected == "no row is ever cleared" else None
    with Campaign.create(folder / "c.db", spec, method=method) as campaign:
        if rounds:
            campaign.ask_batch(rounds, worker="w")
        assert expected.replace("{8}", "8") in page_of(campaign, folder)


def test_a_name_that_matplotlib_would_take_for_mathematics_is_painted(tmp_path):
    check_page(tmp_path, "${8}_{$")


@pytest.mark.parametrize("expected", UNUSUAL)
def test_words_of_unusual_campaigns(tmp_path, unpainted, expected):
    check_page(tmp_path, expected)


def test_the_stop_is_shown(tmp_path, unpainted):
    with Campaign.create(tmp_path / "c.db", specification(tolerance=0.75, radius=radii.Scaled(0.2))) as campaign:
        while not campaign.status(forecast=False).stopped:
            for one in campaign.ask_batch(10, worker="w"):
                campaign.tell(one.id, episode(one, reality()))
        status, page = campaign.status(), words(page_of(campaign, tmp_path))
    assert "stopped: plan now" in page
    assert f"{status.uncertainty:.4g} ≤ 0.75" in page
    assert "nothing more expected" in page


def test_a_forecast_that_never_stops_is_said_in_words():
    assert _forecast_in_words(None) == "not computed"
    assert _forecast_in_words(Forecast(None, None)) == "not reached in a rehearsal"
    assert _forecast_in_words(Forecast(0, 0)) == "nothing more"
    assert _forecast_in_words(Forecast(1_000, 3_000)) == "about 1,000 rounds, about 3,000 samples"
    assert _forecast_in_words(Forecast(1_000, 3_000, 2, 4)) == "about 1,000 rounds, about 3,000 samples"
    assert (
        _forecast_in_words(Forecast(1_000, 3_000, 3, 4)) == "about 1,000 rounds, about 3,000 samples, or several times that"
    )


def test_a_forecast_can_be_left_out(tmp_path, unpainted):
    with Campaign.create(tmp_path / "c.db", specification()) as campaign:
        page = write_campaign_report(campaign, tmp_path / "page.html", forecast=False).read_text()
    assert "not computed expected" in words(page)


# The pictures


def course(rounds, margins=None, **changes):
    numbers = np.arange(1, rounds + 1)
    parts = {
        "numbers": numbers,
        "baseline": numbers % 7 == 0,
        "uncertainty": np.where(numbers % 7 == 0, np.nan, 3.0 / numbers),
        "exploration_weight": np.linspace(0.0, 1.0, rounds),
        "margins": np.zeros((rounds, 1)) if margins is None else margins,
        "looked_at": np.array([0, rounds]),
        "suspects": np.array([9, 4]),
        "stop": None,
    }
    return Course(**(parts | changes))


def points(axes, colour):
    """What is drawn in one colour, as {x: y}."""
    lines = [line for line in axes.get_lines() if line.get_color() == colour and len(line.get_xdata()) > 0]
    return {x: y for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}


def legend_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_a_long_course_is_thinned_without_losing_a_violation():
    rounds = 80_000
    rng = np.random.default_rng(0)
    margins = rng.random((rounds, 2))
    broken = rng.choice(rounds, 300, replace=False)
    margins[broken, 1] = -rng.random(300) - 0.01
    for values in margins.T:
        kept = thinned(values)
        assert len(kept) < 2_500
        assert {int(values.argmin()), int(values.argmax()), 0, rounds - 1} <= set(kept.tolist())
    assert set(broken) <= set(thinned(margins[:, 1]).tolist())
    figure = draw_safety(
        course(rounds, margins),
        [Wording("held", 9, is_cost=False), Wording("broken", 9, is_cost=True)],
        np.array([1.0, 2.0]),
    )
    held, bad = figure.axes
    assert bad.get_title() == "broken: at most 7, in expectation"
    assert bad.get_ylabel().startswith("expected broken, at most")
    assert points(held, "#b91c1c") == {}
    assert points(bad, "#b91c1c") == pytest.approx({n + 1: 7.0 - margins[n, 1] for n in broken})  # a cost above its limit
    assert "misses it" in legend_of(figure)
    assert "misses it" not in legend_of(draw_safety(course(5), [Wording("held", 9, is_cost=False)], np.array([1.0])))


def test_safety_is_coloured_by_reason():
    one = course(30, np.arange(30.0)[:, None])
    (axes,) = draw_safety(one, [Wording("c", 9, is_cost=False)], np.array([0.0])).axes
    by_reason = {n: float(n - 1) for n in range(1, 31)}
    assert points(axes, "#d9730d") == {n: y for n, y in by_reason.items() if n % 7 == 0}
    assert points(axes, "#2563a8") == {n: y for n, y in by_reason.items() if n % 7 != 0}


def test_only_the_constraints_with_the_least_margin_are_drawn():
    margins = np.tile(np.arange(8.0)[::-1], (4, 1))
    figure = draw_safety(course(4, margins), [Wording(f"c{k}", 9, is_cost=False) for k in range(8)], np.zeros(8))
    assert [axes.get_title().split(":")[0] for axes in figure.axes] == [f"c{k}" for k in range(2, 8)]


def test_the_certificate_shows_rounds_of_the_baseline_alone_the_tolerance_and_the_stop():
    figure = draw_certificate(course(50, stop=(50, 0.0591)), 0.06, 12)
    upper, lower, right = figure.axes
    assert upper.get_yscale() == "log"
    drawn = points(upper, "#2563a8")
    assert drawn == {n: 3.0 / n for n in range(1, 51) if n % 7 != 0}
    assert sorted(points(upper, "#d9730d")) == [7, 14, 21, 28, 35, 42, 49]
    assert points(upper, "#2e8b57") == {50: 0.0591}
    texts = legend_of(figure)
    assert "baseline alone: 7 of 50 rounds" in texts
    assert "stopped after 50 rounds, at 0.0591" in texts
    assert "tolerance 0.06: the stop" in texts
    assert points(lower, "#d9730d")[50] == 1.0
    assert points(right, "#2e8b57") == {0: 9, 50: 4}


def test_a_campaign_that_only_ran_its_baseline_has_a_picture_too():
    all_of_them = np.ones(5, dtype=bool)
    figure = draw_certificate(course(5, baseline=all_of_them, uncertainty=np.full(5, np.nan)), 0.1, 12)
    low, high = figure.axes[0].get_ylim()
    assert low < 0.1 < 12 < high
    figure.savefig(io.BytesIO())


def random_map(shape, seed=0):
    rng = np.random.default_rng(seed)
    verdict = rng.choice(5, shape, p=[0.3, 0.1, 0.5, 0.06, 0.04]).astype(np.uint8)
    distance = np.where(rng.random(shape) < 0.8, rng.random(shape), np.nan)
    visits = rng.integers(0, 500, shape)
    return MismatchMap(
        visits, distance, np.zeros(shape), np.ones(shape), verdict, rng.integers(1, 900, shape).astype(float), True
    )


def cells_of(figure):
    """Bands of the map: (image [actions, states, 4], x of each mark by its colour)."""
    return [axes for axes in figure.axes if axes.get_images()]


MARKERS = {Verdict.OPEN: "o", Verdict.WRONG: "X", Verdict.CLEARED: ".", Verdict.KNOWN: "s", Verdict.CONTRADICTED: "*"}


def marks_of(bands, kind):
    """(state, action) of every mark of a kind, put together from the bands."""
    found, first = set(), 0
    for axes in bands:
        for line in axes.get_lines():
            if line.get_marker() == MARKERS[kind]:
                found |= {(first + int(x), int(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}
        first += axes.get_images()[0].get_array().shape[1]
    return found


@pytest.mark.parametrize(("shape", "fewest"), [((25, 4), 1), ((100, 4), 2), ((716, 25), 4)])
def test_every_row_is_on_the_map_with_its_mark(shape, fewest):
    found = random_map(shape)
    figure = draw_mismatch(found, Separation(0.05, 0.6))
    bands = cells_of(figure)
    assert len(bands) >= fewest
    whole = np.concatenate([axes.get_images()[0].get_array() for axes in bands], axis=1)
    assert whole.shape[:2] == shape[::-1]
    grey = np.isclose(whole, [0.9, 0.91, 0.92, 1.0]).all(axis=2)
    np.testing.assert_array_equal(grey.T, np.isnan(found.distance))
    # Darker where the estimate is larger.
    seen = ~np.isnan(found.distance)
    order = np.argsort(found.distance[seen])
    green = whole[..., 1].T[seen][order]
    assert (np.diff(green) <= 1e-9).all()
    for kind in Verdict:
        if kind is Verdict.OPEN and shape == (716, 25):
            continue  # the legend says: no mark
        assert marks_of(bands, kind) == set(map(tuple, np.argwhere(found.verdict == kind).tolist())), kind
    width, height = figure.get_size_inches()
    assert width < 14
    assert height < 16
    refuted = f"contradicted: an assumption is refuted ({found.count(Verdict.CONTRADICTED)} rows)"
    assert {refuted, "not visited"} < set(legend_of(figure))


def test_steps_and_groups_show_the_largest_estimate_and_the_gravest_verdict():
    shape = (3, 4, 2)
    found = MismatchMap(
        np.ones(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape), np.ones(shape),
        np.full(shape, Verdict.KNOWN, dtype=np.uint8), np.zeros(shape), True,
    )  # fmt: skip
    found.distance[0, 1, 0], found.verdict[2, 1, 0], found.verdict[0, 1, 0] = 0.9, Verdict.CONTRADICTED, Verdict.WRONG
    found.verdict[0, 2, 1], found.verdict[1, 2, 1] = Verdict.CLEARED, Verdict.OPEN
    found.distance[:, 3, 1] = [np.nan, 0.4, np.nan]
    (band,) = cells_of(draw_mismatch(found, None))
    image = band.get_images()[0].get_array()
    assert image[0, 1, 1] < image[1, 3, 1] < image[0, 0, 1]
    assert marks_of([band], Verdict.CONTRADICTED) == {(1, 0)}
    assert marks_of([band], Verdict.OPEN) == {(2, 1)}
    assert len(marks_of([band], Verdict.KNOWN)) == 6

    large = random_map((3_000, 100))
    large.verdict[:] = Verdict.CLEARED
    large.distance[:] = 0.1
    large.verdict[1234, 57], large.distance[1234, 57] = Verdict.CONTRADICTED, 1.0
    bands = cells_of(draw_mismatch(large, Separation(0.0, 0.5)))
    whole = np.concatenate([axes.get_images()[0].get_array() for axes in bands], axis=1)
    assert whole.shape[0] * whole.shape[1] <= 20_000
    ((state, action),) = marks_of(bands, Verdict.CONTRADICTED)
    assert (state, action) == (1234 * whole.shape[1] // 3_000, 57 // 2)
    darkest = np.unravel_index(whole[..., 1].argmin(), whole.shape[:2])
    assert darkest == (action, state)


def test_visits_needed_are_sorted_and_only_of_open_rows_that_can_be_cleared():
    found = random_map((30, 3))
    found.visits_needed[0] = np.inf
    figure = draw_visits_needed(found)
    (axes,) = figure.axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    lengths = [bar.get_width() for bar in axes.containers[0]]
    counts = [text.get_text() for text in axes.texts]
    waiting = (found.verdict == Verdict.OPEN) & np.isfinite(found.visits_needed)
    assert lengths == sorted(found.visits_needed[waiting], reverse=True)[:20]
    assert f"the 20 that need most, of {waiting.sum()}" in axes.get_title(loc="left")
    for name, length, count in zip(names, lengths, counts, strict=True):
        state, action = map(int, re.fullmatch(r"state (\d+), action (\d+)", name).groups())
        assert waiting[state, action]
        assert found.visits_needed[state, action] == length
        assert count == f"{roughly(length)} more ({found.visits[state, action]} so far)"
    found.verdict[:] = Verdict.CLEARED
    assert draw_visits_needed(found) is None


# What pages are made of


HOSTILE = "<i a='b' c=\"d\">&amp;"
HARMLESS = "&lt;i a=&#39;b&#39; c=&#34;d&#34;&gt;&amp;amp;"


def test_whatever_is_put_into_a_page_is_escaped():
    page = environment().from_string(
        "{% extends 'base.html.jinja' %}{% from 'parts.html.jinja' import label, picture, table %}"
        "{% block body %}{{ table((x,), ((x,),)) }}{{ label(x, x) }}{{ picture(b, x) }}{{ x }}{% endblock %}"
    )
    text = page.render(title=HOSTILE, x=HOSTILE, b=b"")
    assert "<i " not in text
    assert text.count(HARMLESS) == 7
    assert f"<title>{HARMLESS}</title>" in text
    assert f"<table><tr><th>{HARMLESS}</th></tr><tr><td>{HARMLESS}</td></tr></table>" in text


def test_a_template_that_misspells_a_name_is_an_error():
    with pytest.raises(UndefinedError):
        environment().from_string("{{ statsu }}").render(status=1)
    with pytest.raises(UndefinedError):
        render("campaign.html.jinja", title="nothing else")


def test_the_templates_are_packaged():
    names = {"base", "parts", "campaign", "preflight"}
    held = {file.name for file in files("safe2real.report").joinpath("templates").iterdir()}
    assert held == {f"{name}.html.jinja" for name in names}


def test_times_in_words():
    now = datetime(2030, 1, 8, tzinfo=UTC)
    for ago, expected in ((30, "30 seconds"), (600, "10 minutes"), (3 * 3600, "3 hours"), (5 * 86400, "5 days")):
        assert since((now - timedelta(seconds=ago)).isoformat(), now) == expected


def test_what_a_reward_can_be_worth_is_shown_on_the_side_on_which_it_is_true():
    found = report._reward_in_words(RewardStatus("work", 2.0 / 3.0, 4.0 / 3.0, 0.1, False))
    assert found == "between 0.666666 and 1.33334, not within 0.1 yet"

"""A whole small run in the user's words: a cost stays a cost below its limit in everything that people read."""

import html
import json
import re

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from typer.testing import CliRunner

from safe2real.cli import app

# Staying upright in state 0 never falls; leaning (action 1) ends on the floor for good. 20 steps, at most 2 falls.
SPEC = """
horizon = 20
[simulator]
transition = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
[[constraints]]
name = "falls"
cost = [0.0, 1.0]
limit = 2.0
[baseline]
actions = [0, 0]
[settings]
margin = 1.0
calibrated_gap = 0.0
mismatch_gap = 0.5
tolerance = 0.25
[real]
transition = [[[1.0, 0.0], [0.6, 0.4]], [[0.0, 1.0], [0.0, 1.0]]]
[run]
max_rounds = 15
plans = 1
"""
# The paper's letters and lines, and the constraint turned round: 2 falls in 20 steps is not "at least 18" of anything.
FOREIGN = re.compile(
    r"V_c|V<sub>|\bLine \d|\bDelta\b|[\u0394\u03c4\u03b1]|\\(?:Delta|tau|alpha|sigma|varepsilon)|pi\^"
    r"|\balpha\b|\bxi\b|\btau\b|threshold|at least 1[5-9]|>= ?1\d|exceeds|\bAlgorithm \d"
)


def texts_in(value):
    """Every text of a document; numbers and codes are for programs."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        read = [one for key, one in value.items() if key != "code"] if isinstance(value, dict) else value
        for one in read:
            yield from texts_in(one)


def command(*arguments, given=None):
    stdin = None if given is None else json.dumps(given)
    ended = CliRunner().invoke(app, list(map(str, arguments)), input=stdin, prog_name="safe2real", env={"COLUMNS": "100"})
    assert ended.exit_code in (0, 7), ended.output
    return ended.stdout


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What is printed, written and drawn, by where."""
    folder, drawn = tmp_path_factory.mktemp("words"), []
    spec = folder / "spec.toml"
    spec.write_text(SPEC)
    save = Figure.savefig

    def kept(figure, *arguments, **options):
        drawn.extend(text.get_text() for text in figure.findobj(Text))
        return save(figure, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", kept)
        found = {
            "check": command("check", spec, "--runs", "1", "--max-rounds", "30", "--out", folder / "check"),
            "run": command("run", spec, "--out", folder / "run"),
        }
        place = folder / "c.db"
        command("campaign", "init", place, spec)
        asked = json.loads(command("campaign", "ask", place, "--worker", "arm"))
        episode = {"states": [0] * 21, "actions": [0] * 20}
        command("campaign", "tell", place, asked["deployments"][0]["id"], given=episode)
        plan = json.loads(command("campaign", "plan", place, "-", given=[0.0, 1.0]))
        documents = [asked, plan, *(json.loads(command("campaign", one, place)) for one in ("status", "verify", "map"))]
        command("campaign", "report", place, "--out", folder / "page.html")
    documents += [json.loads((folder / one).read_text()) for one in ("run/summary.json", "check/preflight.json")]
    found["documents"] = "\n".join(text for one in documents for text in texts_in(one))
    found["figures"] = "\n".join(drawn)
    for name, file in (("page", folder / "page.html"), ("run's page", folder / "run" / "report.html")):
        found[name] = html.unescape(re.sub(r"<style>.*?</style>|base64,[^']*", "", file.read_text(), flags=re.DOTALL))
    return found | {"asked": asked, "plan": plan}


@pytest.mark.parametrize("where", ["check", "run", "documents", "figures", "page", "run's page"])
def test_nothing_is_in_the_papers_letters_or_turned_round(said, where):
    found = FOREIGN.search(said[where])
    assert found is None, said[where][max(0, found.start() - 200) : found.end() + 100]


def test_a_cost_is_below_its_limit_everywhere(said):
    assert "expected falls <= 1 (limit 2)" in said["documents"]
    assert "the baseline's expected falls is at least 1 below its limit on the real system" in said["page"]
    assert "expected falls <= 2 (sum over an episode)" in said["page"]
    assert "falls: at most 2, in expectation" in said["figures"]
    assert "expected falls, at most\n(sum over an episode)" in said["figures"]
    assert "expected falls (sum over an episode)" in said["figures"]
    assert "limit of falls" in said["check"]


def test_answers_have_the_users_numbers_beside_the_others(said):
    certificate = said["asked"]["deployments"][0]["certificate"]
    assert certificate["lower_bounds"] == [19.0]
    assert certificate["thresholds"] == [18.0]
    statement = "expected falls <= 1"
    assert certificate["constraints"] == [
        {"name": "falls", "relation": "<=", "limit": 2.0, "proved": 1.0, "statement": statement}
    ]
    assert said["plan"]["certificate"]["constraints"][0]["limit"] == 2.0

"""The page of reproduced artefacts: what runs are worth is data, whatever the words beside it say."""

from experiments.artefact import Artefact, Outcome
from experiments.page import write_report
from experiments.reproduce import ARTEFACTS
from safe2real.standing import Standing
from tests.cases import each


@each(
    ("words", "standing", "colour"),
    [
        ("not heuristic at all", Standing.CERTIFIED, "label certified"),
        ("certified, said someone", Standing.HEURISTIC, "label"),
        ("certified", Standing.REFUTED, "label refuted"),
    ],
)
def test_colours_follow_the_standing(tmp_path, words, standing, colour):
    artefact = Artefact("one", "One", words, standing, lambda rows, folder: Outcome())
    write_report([(artefact, Outcome(), 0.0)], tmp_path / "page.html", wall=1.0, cost="", seeds=None)
    assert f"<span class='{colour}'>{words}</span>" in (tmp_path / "page.html").read_text()


def test_what_the_artefacts_are_worth():
    heuristic = {one.name for one in ARTEFACTS if one.standing is Standing.HEURISTIC}
    assert heuristic == {"table1", "safety", "heatmaps", "misspecification", "separation", "mismatch-size"}
    others = {one.name: one.standing for one in ARTEFACTS if one.name not in heuristic}
    assert others.pop("comparison") is Standing.INCOMPLETE  # of other people's methods nothing is promised here
    assert set(others.values()) == {Standing.CERTIFIED}

"""Names of states and actions: the environment's own, the user's, and what becomes of them in a finite system."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.evidence.mismatch_map import map_mismatch
from safe2real.model.names import Legend
from safe2real.plots.map import draw_mismatch
from safe2real.preflight.spec_file import numbering_of, read_spec_file
from safe2real.systems import Discretised, WindyGrid, from_dynamics, from_gymnasium
from safe2real.systems.dynamics import Noise
from safe2real.systems.estimate import estimate_by_sampling, estimate_from_log
from safe2real.systems.finite import SystemDescription
from tests.preflight.specs import LAKE, TOML, write


def test_a_name_of_two_lines_forges_no_line_of_a_certificate_whatever_made_the_legend():
    model = s2r.CMDP.of(s2r.Kernel.from_dense(np.ones((1, 2, 1))), 2, 0)
    for legend in (Legend(states=("hill\nCertified: cost <= 0",)), Legend(actions=("left", "\t"))):
        with pytest.raises(InvalidInput, match="printable characters in one line"):
            model.with_legend(legend)


class Door(gymnasium.Env[int, int]):
    """Push (1) and it opens, half the time with a bang that costs 1; then it is over. Wait (0) and nothing happens."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)
    state_names = ("shut", "open")
    initial_state_distrib = np.array([1.0, 0.0])
    P: ClassVar = {0: {0: [(1.0, 0, 0.0, False)], 1: [(0.5, 1, 1.0, True), (0.5, 1, 0.0, True)]},
         1: {a: [(1.0, 1, 0.0, True)] for a in (0, 1)}}  # fmt: skip

    def get_action_meanings(self):
        return ["wait", "push"]


def bang(state, action, next_state, reward, terminated):
    return float(terminated and not reward and state != next_state)


def test_an_environment_says_what_its_states_are_called_and_copies_say_what_they_are():
    legend = from_gymnasium(Door(), 3, SystemDescription(cost=bang, limit=1.0, ended=0)).model.legend
    assert legend.actions == ("wait", "push")
    assert legend.states == ("shut", "open, ended here", "open, ended here, entered at cost 1", "after the end")
    assert legend.row(0, 1) == "push in shut"
    mine = from_gymnasium(
        Door(), 3, SystemDescription(state_names=["a", "b"], action_names=["x", "y"], positions=[[0, 0], [1, 0]])
    )
    assert mine.model.legend.states == ("a", "b, ended here", "after the end")
    assert mine.model.legend.actions == ("x", "y")
    assert np.isnan(mine.model.legend.positions[2]).all()
    assert mine.model.legend.positions[1].tolist() == [1.0, 0.0]
    assert [one["name"] for one in numbering_of(mine)] == list(mine.model.legend.states)


def test_names_that_do_not_fit_are_refused_and_those_of_an_environment_left_out():
    for given in ({"state_names": ["one"]}, {"action_names": [1, 2]}, {"positions": [[0, 0]]}):
        with pytest.raises(InvalidInput, match=next(iter(given))):
            from_gymnasium(Door(), 3, SystemDescription(**given))
        with pytest.raises(InvalidInput, match=next(iter(given))):
            estimate_from_log([([0, 1, 0], [0, 1])], 2, SystemDescription(**given))
    odd = Door()
    odd.state_names = ("too", "many", "names")
    assert from_gymnasium(odd, 3).model.legend.states[0] == "state 0"


@pytest.mark.parametrize(("id", "shape"), [("FrozenLake-v1", (4, 4)), ("CliffWalking-v1", (4, 12))])
def test_toy_text_grids_lie_where_they_are_drawn(id, shape):
    system = from_gymnasium(gymnasium.make(id), 5)
    where = system.model.legend.positions
    assert where[shape[1] + 2].tolist() == [2.0, 1.0]  # second row, third column
    assert np.isnan(where[system.origin < 0]).all()


def test_dynamics_grids_cells_and_logs_have_names():
    pond = from_dynamics(
        ["dry", "wet"], (0, 1), lambda s, a, w: s, Noise((0,), [1.0]), 3, SystemDescription(start="dry")
    ).model.legend
    assert (pond.states, pond.actions) == (("dry", "wet"), ("action 0", "action 1"))
    grid = WindyGrid.paper()
    legend = grid.cmdp(grid.simulator(), 10.0).legend
    assert legend.row(grid.state((3, 2)), 0) == "up in cell (3, 2)"
    assert legend.positions[grid.state((3, 2))].tolist() == [2.0, 3.0]
    cells = Discretised(gymnasium.make("MountainCarContinuous-v0"), bins=[3, 2], action_bins=[3])
    assert cells.legend.actions == ("-1", "0", "1")
    assert cells.legend.states[0] == "(-0.9, -0.035)"
    assert cells.legend.positions[0].tolist() == [0.0, 1.0]  # slowest leftmost cell: bottom left
    estimated = estimate_by_sampling(cells, 4, samples_per_row=1)
    assert estimated.system.model.legend.states[:6] == cells.legend.states
    logged = estimate_from_log([([0, 1, 0], [0, 1])], 2, SystemDescription(state_names=["low", "high"]), num_states=2)
    assert "rows, action 1 in low, action 0 in high" in logged.describe()


def test_a_specification_names_states_and_actions(tmp_path):
    names = 'state_names = ["upright", "floor"]\naction_names = ["stay", "lean"]\npositions = [[0, 0], [0, 1]]\n'
    read = read_spec_file(write(tmp_path, names + TOML)).problem
    assert read.simulator.legend.row(1, 0) == "stay in floor"
    again = s2r.Problem.from_text(read.to_text()).simulator.legend
    assert again.states == ("upright", "floor")
    lake = read_spec_file(write(tmp_path, 'action_names = ["west", "south", "east", "north"]\n' + LAKE)).problem
    assert lake.simulator.legend.row(0, 2) == "east in state 0"
    assert lake.simulator.legend.positions is not None
    with pytest.raises(InvalidInput, match="has the key 'state_names', which belongs to the whole"):
        read_spec_file(write(tmp_path, TOML + names))


def test_maps_and_refutations_name_rows(tmp_path):
    names = 'state_names = ["upright", "floor"]\naction_names = ["stay", "lean"]\n'
    problem = read_spec_file(write(tmp_path, names + TOML)).problem
    known = s2r.Problem(
        problem.simulator, problem.baseline, problem.settings, known=np.array([[True, False], [False, False]])
    )
    learner = s2r.Learner(known)
    episodes = [s2r.Trajectory.of(problem.simulator, [0, 1, 1, 1], [0, 0, 0])] * 40
    for episode in episodes:
        learner.evidence.take(episode, of_baseline=False)
        if learner.is_refuted:
            break
    assert any("1 row, stay in upright" in str(doubt) for doubt in learner.doubts())
    found = map_mismatch(learner.evidence)
    assert found.row_name((0, 1)) == "upright, lean"
    assert found.row_name((2, 0, 1)) == "step 2, upright, lean"
    shown = {text.get_text() for axes in draw_mismatch(found, None).axes for text in axes.get_yticklabels()}
    assert {"stay", "lean"} <= shown


def test_a_campaign_goes_on_whatever_things_are_called(tmp_path):
    plain = read_spec_file(write(tmp_path, TOML)).problem
    named = read_spec_file(write(tmp_path, 'state_names = ["upright", "floor"]\n' + TOML)).problem
    with s2r.Campaign.create(tmp_path / "c.db", plain) as campaign:
        name = campaign.name
    with s2r.Campaign.create(tmp_path / "c.db", named, exist_ok=True) as campaign:
        assert campaign.name == name

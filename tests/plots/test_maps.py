"""Systems and policies on maps, in tables and as matrices."""

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.model.names import Legend
from safe2real.plots.policy import action_directions, draw_policy, short_names
from safe2real.plots.style import kept
from safe2real.plots.system import draw_system, ends, losses, places_of


def corridor(**legend):
    """Cells 0, 1, 2 from left to right, 3 is after the end, without a place; the cell 2 costs and ends the episode."""
    right, left = [1, 2, 3, 3], [0, 0, 3, 3]
    table = np.stack([np.eye(4)[right], np.eye(4)[left]], axis=1)  # [S, A, S]
    cost = np.zeros((4, 2))
    cost[2] = 1.0
    given = {"positions": [(0, 0), (1, 0), (2, 0), (np.nan, np.nan)], "action_names": ["right", "left"]} | legend
    return s2r.CMDP.of(s2r.Kernel.from_dense(table), 5, 0, s2r.AtMost(cost, 0.5, "falls"), **given)


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts] + [text.get_text() for text in figure.texts]


def legend_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_costs_ends_and_places_of_a_system():
    model = corridor()
    assert losses(model).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert ends(model).tolist() == [False, False, True, True]
    places = places_of(model.legend.positions)
    assert places.of_state.tolist() == [0, 1, 2, -1]
    assert places.total(np.arange(4.0)).tolist() == [0.0, 1.0, 2.0]
    assert places_of(np.full((4, 2), np.nan)) is None


def test_states_at_one_place_are_drawn_as_one():
    places = places_of(np.array([(0.0, 0.0), (0.0, 0.0), (0.5, 0.0)]))
    assert (places.of_state.tolist(), places.width, places.height) == ([0, 0, 1], 0.5, 1.0)
    assert places.total(np.array([1.0, 2.0, 4.0])).tolist() == [3.0, 4.0]
    assert places.most(np.array([1.0, 2.0, 4.0])).tolist() == [2.0, 4.0]


def test_actions_point_where_they_lead():
    assert action_directions(corridor()).round(6).tolist() == [[1.0, 0.0], [-1.0, 0.0]]
    alike = corridor(positions=[(0, 0), (0, 0), (0, 0), (0, 0)])
    assert action_directions(alike) is None


def test_short_names_tell_actions_apart():
    assert short_names(corridor()) == ["r", "l"]
    assert short_names(corridor(action_names=["hold on", "hold back"])) == ["hold o", "hold b"]
    assert short_names(corridor(action_names=None)) == ["0", "1"]


def test_a_policy_has_an_arrow_wherever_it_goes_and_decides():
    model = corridor()
    go_right = s2r.MarkovPolicy.deterministic(np.zeros(4, dtype=int), num_actions=2, horizon=5)
    figure = draw_policy(go_right, model)
    arrows = [(text.xyann, text.xy) for text in figure.axes[0].texts if hasattr(text, "xyann")]
    assert [tuple(start) for start, _ in arrows] == [(0.0, 0.0), (1.0, 0.0)]  # not where it has ended
    assert all(end[0] > start[0] for start, end in arrows)
    stay_left = s2r.MarkovPolicy.deterministic(np.ones(4, dtype=int), num_actions=2, horizon=5)
    assert len(draw_policy(stay_left, model).axes[0].texts) == 1  # it never leaves the start


def test_without_directions_actions_are_named():
    model = corridor(positions=[(0, 0), (0, 0), (0, 0), (0, 0)], action_names=["rest", "run"])
    policy = s2r.MarkovPolicy.deterministic(np.ones(4, dtype=int), num_actions=2, horizon=5)
    figure = draw_policy(policy, model)
    assert "ru" in texts(figure)
    assert "ru  run" in legend_of(figure)


def test_a_map_shows_start_costs_and_ends_in_the_words_of_the_user():
    figure = draw_system(corridor(state_names=["home", "way", "pit", "over"]))
    assert {"start", "end", "counts against falls"} <= set(legend_of(figure))
    assert {"home", "way", "pit"} <= set(texts(figure))
    assert any("expected falls <= 0.5" in text and "1 state more" in text for text in texts(figure))


def test_without_positions_a_policy_is_a_table_and_a_system_a_matrix():
    model = corridor(positions=None, state_names=["home", "way", "pit", "over"])
    go_right = s2r.MarkovPolicy.deterministic(np.zeros(4, dtype=int), num_actions=2, horizon=5)
    table = draw_policy(go_right, model, title="a plan").axes[0]
    assert [label.get_text() for label in table.get_yticklabels()] == ["home", "way", "pit", "over"]
    assert [label.get_color() for label in table.get_yticklabels()][2] == "#b91c1c"
    shades = np.asarray(table.images[0].get_array())  # [S, H, 3]
    assert (shades[0, 0] < 0.99).any()
    assert (shades[0, 1] == 1.0).all()  # it is at home at the first step alone
    matrix = draw_system(model).axes[0]
    assert np.asarray(matrix.images[0].get_array())[0, 1] == pytest.approx(np.sqrt(0.5))
    assert [label.get_text() for label in matrix.get_xticklabels()] == ["home", "way", "pit", "over"]


@pytest.mark.parametrize(("horizon", "name"), [(5, "falls"), (15, "steps with the lower tank full")])
def test_the_legend_of_a_table_lies_within_the_picture(horizon, name):
    actions = [f"valve {number} half open" for number in range(6)]
    model = s2r.CMDP.of(
        s2r.Kernel.from_dense(np.full((3, 6, 3), 1.0 / 3.0)), horizon, 0, s2r.AtMost(np.eye(3)[2], 5.0, name=name)
    ).with_legend(Legend.of(["low", "half", "full"], actions))
    cycle = s2r.MarkovPolicy.deterministic(np.arange(3 * horizon).reshape(horizon, 3) % 6, num_actions=6, horizon=horizon)
    figure = draw_policy(cycle, model)
    (legend,) = figure.legends
    drawn, whole, table = legend.get_window_extent(), figure.bbox, figure.axes[0]
    assert whole.x0 <= drawn.x0
    assert drawn.x1 <= whole.x1
    assert drawn.y1 <= table.xaxis.get_tightbbox().y0
    assert whole.x0 <= table.yaxis.get_tightbbox().x0
    assert table.bbox.x1 >= 0.7 * whole.x1
    assert (table.get_xlabel(), table.get_ylabel()) == ("step", "state")


def ring(states):
    """Around a circle, forwards or backwards."""
    table = np.zeros((states, 2, states))
    for state in range(states):
        table[state, 0, (state + 1) % states] = table[state, 1, state - 1] = 1.0
    return s2r.CMDP.of(s2r.Kernel.from_dense(table), 90, np.full(states, 1.0 / states))


def test_large_systems_stay_readable():
    model = ring(600)
    uniform = s2r.MarkovPolicy.uniform(horizon=90, num_states=600, num_actions=2)
    table = draw_policy(uniform, model)
    assert len(table.axes[0].get_yticks()) == 50
    assert any("the 50 states it is in longest, of 600" in text for text in texts(table))
    assert len(table.axes[0].get_xticks()) <= 31
    matrix = draw_system(model)
    assert np.asarray(matrix.axes[0].images[0].get_array()).shape == (300, 300)
    assert all(max(figure.get_size_inches()) < 15.0 for figure in (table, matrix))
    square = model.with_legend(Legend.of(positions=[(i % 30, i // 30) for i in range(600)]))
    assert max(draw_policy(uniform, square).get_size_inches()) < 12.0


def test_a_figure_is_kept_where_it_is_asked_for(tmp_path):
    figure = draw_system(corridor())
    assert kept(figure, None) is figure
    assert kept(figure, tmp_path / "system.png") is figure
    assert (tmp_path / "system.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidInput, match=r"end with one of .*png"):
        kept(figure, tmp_path / "system.docx")
    with pytest.raises(InvalidInput, match="cannot be written"):
        kept(figure, tmp_path / "nowhere" / "system.png")


def test_a_finite_system_plots_itself(tmp_path):
    import gymnasium

    system = s2r.from_gymnasium(gymnasium.make("FrozenLake-v1"), 4)
    figure = system.plot(tmp_path / "lake.svg")
    assert (tmp_path / "lake.svg").stat().st_size > 1_000
    assert any("16 states" in text or "17 states" in text for text in texts(figure))

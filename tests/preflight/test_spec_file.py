"""Problem files: every form of every part gives the same system, and every mistake is said with its place and cure."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import safe2real as s2r
from safe2real.errors import InvalidInput
from safe2real.preflight.hypothetical_reality import Guess, guess_reality
from safe2real.preflight.spec_file import numbering_of, read_spec_file
from tests.preflight.specs import LAKE, REAL, ROWS, SAFE, TOML, tiny, write


def refused(folder, text, *words):
    with pytest.raises(InvalidInput) as caught:
        read_spec_file(write(folder, text))
    for word in words:
        assert word in str(caught.value), str(caught.value)
    return str(caught.value)


def same(one, other):
    assert one.to_text() == other.to_text()


# What can be written


def test_inline_toml_is_the_specification_it_says(tmp_path):
    given = read_spec_file(write(tmp_path))
    same(given.problem, tiny())
    assert given.reality is None
    assert given.guess is None
    assert given.options.max_rounds == 5_000


def test_the_json_document_of_campaigns_is_one_too(tmp_path):
    same(read_spec_file(write(tmp_path, tiny().to_text(), "spec.json")).problem, tiny())


def test_stated_distances_and_copies_are_read_like_every_array(tmp_path):
    within = np.array([[0.1, 0.7], [1.0, 1.0]])
    np.save(tmp_path / "within.npy", within)
    for written in ("[[0.1, 0.7], [1.0, 1.0]]", '"within.npy"'):
        given = read_spec_file(write(tmp_path, f"within = {written}\ncopies = [0, 1]\n{TOML}")).problem
        np.testing.assert_array_equal(given.within, within)
        np.testing.assert_array_equal(given.copies, [0, 1])
    refused(tmp_path, f'within = "nonsense.npy"\n{TOML}', "within is 'nonsense.npy', a file that is not there")
    refused(tmp_path, f"{TOML}within = 0.1\n", "settings has the key 'within', which belongs to the whole specification")
    refused(tmp_path, f"within = [[0.1]]\n{LAKE}", "has `within` beside simulator.gymnasium")


def test_arrays_may_be_in_files_beside_it(tmp_path):
    np.savez(tmp_path / "model.npz", transition=ROWS)
    np.savez(tmp_path / "several.npz", simulator=ROWS, safe=SAFE[:, 0])
    np.save(tmp_path / "rows.npy", ROWS)
    np.save(tmp_path / "policy.npy", np.array([0, 0]))
    np.save(tmp_path / "start.npy", np.array([1.0, 0.0]))
    inline = "transition = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]"
    for other in ('file = "model.npz"', 'file = "several.npz:simulator"', 'file = "rows.npy"', 'transition = "rows.npy"'):
        text = TOML.replace(inline, other)
        text = text.replace("utility = [[1.0, 1.0], [0.0, 0.0]]", 'utility = "several.npz:safe"')
        text = text.replace("actions = [0, 0]", 'policy = "policy.npy"').replace(
            "horizon = 3", 'horizon = 3\nstart = "start.npy"'
        )
        same(read_spec_file(write(tmp_path, text)).problem, tiny())


def test_transitions_as_parallel_lists_in_one_file(tmp_path):
    states, actions, successors = np.nonzero(ROWS)
    np.savez(
        tmp_path / "lists.npz",
        states=states,
        actions=actions,
        successors=successors,
        probabilities=ROWS[states, actions, successors],
        num_states=2,
        num_actions=2,
    )
    text = TOML.replace("transition = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]", 'file = "lists.npz"')
    same(read_spec_file(write(tmp_path, text)).problem, tiny())


def test_unsafe_states_cost_one_each(tmp_path):
    text = TOML.replace("utility = [[1.0, 1.0], [0.0, 0.0]]\nthreshold = 1.5", "unsafe = [1]\nlimit = 1.5")
    read = read_spec_file(write(tmp_path, text)).problem
    assert read.simulator.costs == (True,)
    same(replace(read, simulator=replace(read.simulator, costs=(False,))), tiny())


def test_baselines(tmp_path):
    def read(words):
        return read_spec_file(write(tmp_path, TOML.replace("actions = [0, 0]", words))).problem.baseline.probabilities

    np.testing.assert_array_equal(read('policy = "uniform"'), np.full((3, 2, 2), 0.5))
    np.testing.assert_array_equal(read("probabilities = [[0.9, 0.1], [0.5, 0.5]]")[2], [[0.9, 0.1], [0.5, 0.5]])
    np.testing.assert_array_equal(read("actions = [[0, 0], [1, 0], [0, 1]]")[:, 0, 1], [0.0, 1.0, 0.0])


def test_the_reality_the_guess_and_the_run(tmp_path):
    np.save(tmp_path / "reward.npy", np.array([0.0, 1.0]))
    run = (
        '\n[run]\nmax_rounds = 7\nseed = 3\ngrowth = 0.5\nout = "there"\nrewards = ["reward.npy", [[0.1, 0.2], [0.3, 0.4]]]'
    )
    given = read_spec_file(write(tmp_path, TOML + REAL + run))
    assert given.reality.row(1)[1].tolist() == [0.6, 0.4]
    assert (given.options.max_rounds, given.options.seed, given.options.growth) == (7, 3, 0.5)
    assert given.options.out == tmp_path / "there"
    np.testing.assert_array_equal(given.options.rewards[0], [[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(given.options.rewards[1], [[0.1, 0.2], [0.3, 0.4]])
    guess = read_spec_file(write(tmp_path, TOML + "[guess]\nrows = 1\ngap = 0.5\nseed = 4")).guess
    assert (guess.rows, guess.gap, guess.seed) == (1, 0.5, 4)
    states = read_spec_file(write(tmp_path, TOML + "[guess]\nstates = [1]")).guess
    np.testing.assert_array_equal(states.rows, [[False, False], [True, True]])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[0, 1]", [[[0, 0], [1, 1]]]),  # one number for each state
        ("[[0.1, 0.2], [0.3, 0.4]]", [[[0.1, 0.2], [0.3, 0.4]]]),  # S = A: one reward, not two of one number a state
        ("[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [0, 1]]]", [[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [0, 1]]]]),
        ("[[0, 1], [1, 0], [1, 1]]", [[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[1, 1], [1, 1]]]),
        ("[[[0, 0], [1, 1]], [[1, 1], [0, 0]]]", [[[0, 0], [1, 1]], [[1, 1], [0, 0]]]),  # two, at a horizon of 3
        ("[[0, 1], [[0, 1], [0, 1]]]", [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]),
        ('"one.npy"', [[[0, 0], [1, 1]]]),
        ('["one.npy", "one.npy"]', [[[0, 0], [1, 1]], [[0, 0], [1, 1]]]),
        ("[]", []),
    ],
)
def test_rewards_are_one_or_a_list(tmp_path, written, meant):
    np.save(tmp_path / "one.npy", np.array([0.0, 1.0]))
    found = read_spec_file(write(tmp_path, TOML + f"[run]\nrewards = {written}")).options.rewards
    assert [reward.tolist() for reward in found] == meant


def test_a_gymnasium_environment_and_its_slippery_reality(tmp_path):
    given = read_spec_file(write(tmp_path, LAKE))
    model = given.problem.simulator
    assert model.num_states == 17  # one more: after the end
    assert np.asarray(given.problem.known).sum() == 6 * 4  # four holes, the goal, and after the end
    assert (model.counts_end, model.thresholds.tolist()) == (True, [6.5])  # 6 steps and the end, less 0.5
    # Into the hole of state 5 at the first chance: 1 -> 5 is paid once, on arrival.
    down = s2r.MarkovPolicy.deterministic(np.where(np.arange(17) == 0, 2, 1), num_actions=4, horizon=6)
    assert model.wordings[0].number(s2r.planning.constraint_values(model, down)[0]) == pytest.approx(1.0)
    assert given.reality.distances_to(model.kernel).reshape(-1).max() == pytest.approx(2 / 3)
    assert given.problem.baseline.actions[0, 1] == 3
    (reward,) = given.options.rewards
    assert reward[14, 2] == reward.max() == 1.0
    guess = read_spec_file(write(tmp_path, LAKE.split("[real]")[0] + "[baseline]" + LAKE.split("[baseline]")[1]
                                 + "[guess]\nstates = [5, 6]")).guess  # fmt: skip
    assert guess.rows[6].all()


def test_rewards_over_the_states_of_an_environment(tmp_path):
    for written, shapes in (
        (f"{16 * [1]}", [(17, 4)]),
        (f"{16 * [4 * [1]]}", [(17, 4)]),
        (f"{3 * [16 * [0]]}", 3 * [(17, 4)]),
        (f"{6 * [16 * [4 * [1]]]}", [(6, 17, 4)]),  # a step for every action, though the end counts too
    ):
        found = read_spec_file(write(tmp_path, LAKE.replace('"environment"', written))).options.rewards
        assert [reward.shape for reward in found] == shapes


def test_which_state_of_the_model_is_what(tmp_path):
    system = read_spec_file(write(tmp_path, LAKE)).system
    states = numbering_of(system)
    assert list(states[0]) == ["state", "name", "environment_state", "cost_on_arrival", "ended"]
    listed = [tuple(one.values()) for one in states]
    assert [state for state, *_ in listed] == list(range(17))
    assert listed[4] == (4, "state 4", 4, 0.0, False)
    assert listed[5] == (5, "state 5, ended here", 5, 1.0, True)  # a hole
    assert listed[15] == (15, "state 15, ended here", 15, 0.0, True)  # the goal
    assert listed[16] == (16, "after the end", None, 0.0, True)
    assert system.state_of(5, 1.0, True) == 5
    assert read_spec_file(write(tmp_path)).system is None


def test_the_end_in_a_hole_may_cost_more_than_the_end_at_the_goal(tmp_path):
    np.save(tmp_path / "ended.npy", np.isin(np.arange(16), [5, 7, 11, 12]).astype(float))
    model = read_spec_file(write(tmp_path, LAKE.replace("ended = 0.0", 'ended = "ended.npy"'))).problem.simulator
    down = np.where(np.arange(model.num_states) == 0, 2, 1)
    fall = s2r.MarkovPolicy.deterministic(down, num_actions=4, horizon=6)
    assert s2r.planning.constraint_values(model, fall)[0] == pytest.approx(2.0)  # in the hole from the third of six steps on


def test_costs_by_reward_for_falling(tmp_path):
    text = """
horizon = 5
[simulator]
gymnasium = "CliffWalking-v1"
unsafe_reward = -100
limit = 0.5
ended = 0.0
[baseline]
policy = "uniform"
[settings]
margin = 0.1
calibrated_gap = 0.0
mismatch_gap = 0.3
tolerance = 0.025
"""
    given = read_spec_file(write(tmp_path, text + "[guess]\nstates = [36]"))
    assert given.guess.rows.sum() == 8  # after a fall state 36 is entered at a cost: a copy of it
    model = given.problem.simulator
    fall = s2r.MarkovPolicy.deterministic(np.ones(model.num_states, dtype=int), num_actions=4, horizon=5)
    assert s2r.planning.constraint_values(model, fall)[0] == pytest.approx(
        1.0
    )  # right, into the cliff, at each of the first 4 steps


# What is refused


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("horizon = 3", "horizn = 3", ["spec.toml", "unknown key 'horizn'", "did you mean 'horizon'?"]),
        ("margin = 1.0", "margn = 1.0", ["settings has an unknown key 'margn'", "did you mean 'margin'?"]),
        ("threshold = 1.5", "treshold = 1.5", ["constraints[0]", "did you mean 'threshold'?"]),
        ("horizon = 3", "", ["lacks 'horizon'"]),
        ("utility =", "unsfe =", ["unknown key 'unsfe'", "did you mean 'unsafe'?", "unsafe, cost, limit, utility"]),
        ("horizon = 3", "horizon = 3.5", ["horizon is 3.5", "whole number"]),
        ("horizon = 3", "horizon = 1000000000000", ["horizon is 1000000000000", "shorten the horizon"]),
        ("horizon = 3", "horizon = ", ["spec.toml is not TOML", "line 2"]),
        ("actions = [0, 0]", "acts = [0, 0]", ["baseline has an unknown key 'acts'", "did you mean 'actions'?"]),
        ("actions = [0, 0]", "actions = [0, 2]", ["actions[1] is 2"]),
        ("actions = [0, 0]", 'policy = "uniformly"', ["baseline.policy is 'uniformly'", ".npy"]),
        ("actions = [0, 0]", "", ["baseline is empty"]),
        ("horizon = 3", "horizon = 3\nstart = 2", ["start is 2", "states run from 0 to 1"]),
        ("utility = [[1.0, 1.0], [0.0, 0.0]]", "utility = [1.0, 1.0, 1.0]", ["constraints[0].utility has shape (3,)"]),
        ("transition =", 'file = "model.npz"\ntransition =', ["simulator has an unknown key 'transition'"]),
        ("[0.0, 1.0]]]", "[0.0, 0.9]]]", ["simulator: transition[1, 1] sums to 0.9"]),
    ],
)
def test_mistakes_in_the_text(tmp_path, old, new, words):
    assert old in TOML
    refused(tmp_path, TOML.replace(old, new, 1), *words)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (REAL + "[guess]\nrows = 1", ["both `real` and `guess`"]),
        ("[real]\ntransition = [[[1.0]]]", ["real is for (H, S, A) = (None, 1, 1)"]),
        ("[guess]\nrow = 1", ["unknown key 'row'", "did you mean 'rows'?"]),
        ("[guess]\nrows = 1\nstates = [0]", ["rows and states; keep one"]),
        ("[guess]\nrows = [[true, false], [true]]", ["guess.rows is ragged"]),
        ("[guess]\ngap = 1.5", ["guess.gap is 1.5"]),
        ("[guess]\nseed = -1", ["guess.seed is -1"]),
        ("[guess]\nstates = [2]", ["guess.states[0] is 2"]),
        ("[run]\nmax_round = 5", ["did you mean 'max_rounds'?"]),
        ("[run]\nmax_rounds = 0", ["run.max_rounds is 0"]),
        ("[run]\ngrowth = 2", ["run.growth is 2"]),
        ("[run]\nrewards = [[[0.0, 2.0], [0.0, 0.0]]]", ["run.rewards[0]", "to 2", "numbers from 0 to 1"]),
        ("[run]\nrewards = [0, 1, 0]", ["run.rewards has shape (3,)", "(S,) = (2,)"]),
        ("[run]\nout = 3", ["run.out is 3"]),
    ],
)
def test_mistakes_in_what_is_rehearsed(tmp_path, more, words):
    refused(tmp_path, TOML + more, *words)


def test_a_key_of_the_whole_that_a_table_swallowed(tmp_path):
    late = TOML.replace("horizon = 3\n", "")
    refused(tmp_path, late + "horizon = 3", "spec.toml: settings has the key 'horizon'", "before the first [table]")
    refused(tmp_path, late.replace("threshold =", "horizon = 3\nthreshold ="), "constraints[0] has the key 'horizon'")
    refused(tmp_path, TOML + "start = 0", "settings has the key 'start'")


def test_a_missing_array_file_is_named_as_written_with_the_place_and_the_nearest(tmp_path):
    text = TOML.replace("utility = [[1.0, 1.0], [0.0, 0.0]]", 'utility = "safe.npz:c"')
    message = refused(tmp_path, text, "constraints[0].utility is 'safe.npz'", "not there", str(tmp_path / "safe.npz"))
    assert "did you mean" not in message
    np.savez(tmp_path / "saf.npz", c=SAFE)
    refused(tmp_path, text, "did you mean 'saf.npz'?")
    np.save(tmp_path / "one.npy", SAFE)
    assert "did you mean" not in refused(tmp_path, text.replace("safe.npz:c", "nope.npz:c"), "nope.npz")
    refused(tmp_path, text.replace("safe.npz:c", "one.npz:c"), "did you mean 'one.npy'?")


def test_an_array_that_is_not_in_the_file(tmp_path):
    np.savez(tmp_path / "m.npz", alpha=ROWS, beta=ROWS)
    simulator = "transition = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]"
    refused(tmp_path, TOML.replace(simulator, 'file = "m.npz:gamma"'), "no array 'gamma'", "alpha, beta")
    refused(tmp_path, TOML.replace(simulator, 'transition = "m.npz"'), "holds alpha, beta", "'m.npz:alpha'")
    refused(tmp_path, TOML.replace(simulator, 'file = "m.npz"'), "simulator.file is 'm.npz', which holds alpha, beta",
            "'m.npz:alpha'")  # fmt: skip
    np.savez(tmp_path / "more.npz", transition=ROWS, simulator=ROWS)
    refused(tmp_path, TOML.replace(simulator, 'file = "more.npz"'), "which holds simulator, transition; say which one")
    np.savez(tmp_path / "single.npz", alpha=ROWS)
    same(read_spec_file(write(tmp_path, TOML.replace(simulator, 'file = "single.npz"'))).problem, tiny())
    refused(tmp_path, TOML.replace(simulator, 'file = "m.csv"'), "simulator.file is 'm.csv'", ".npy")


class Bomb:
    """What must never be run."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_pickles_are_never_opened(tmp_path):
    simulator = "transition = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]"
    np.save(tmp_path / "objects.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    (tmp_path / "bare.npy").write_bytes(pickle.dumps(Bomb()))
    np.savez(tmp_path / "objects.npz", transition=np.array([Bomb()], dtype=object))
    np.savez(tmp_path / "words.npz", transition=np.array(["a"]))
    (tmp_path / "torn.npz").write_bytes((tmp_path / "words.npz").read_bytes()[:60])
    for file in ("objects.npy", "bare.npy", "objects.npz"):
        refused(tmp_path, TOML.replace(simulator, f'file = "{file}"'), f"simulator.file is '{file}'", "never unpickled")
    refused(tmp_path, TOML.replace(simulator, 'file = "words.npz"'), "entries of type <U1")
    refused(tmp_path, TOML.replace(simulator, 'file = "torn.npz"'), "cannot be read")


def test_the_file_itself(tmp_path):
    for name, word in (("spec.yaml", "no .toml or .json"), ("nowhere.toml", "cannot be read")):
        with pytest.raises(InvalidInput, match=word):
            read_spec_file(tmp_path / name)
    (tmp_path / "latin.toml").write_bytes("name = 'ü'".encode("latin-1"))
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_spec_file(tmp_path / "latin.toml")
    with pytest.raises(InvalidInput, match=r"spec.json is not JSON"):
        read_spec_file(write(tmp_path, "{", "spec.json"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("FrozenLake-v1", "FrozenLak-v1", ["simulator.gymnasium is 'FrozenLak-v1'", "could not be made"]),
        ("ended = 0.0\n", "", ["give ended="]),
        ("limit = 0.5\n", "", ["a cost is given without its limit"]),
        ("unsafe = [5,", "unsafe_reward = 0\nunsafe = [5,", ["unsafe and unsafe_reward; keep one"]),
        ('paid = "arrival"', 'paid = "later"', ["simulator.paid is 'later'"]),
        ("unsafe = [5, 7, 11, 12]", "cost = [0, 1]", ["simulator.cost has shape (2,)", "16 states"]),
        ("unsafe = [5,", "unsafe = [16,", ["simulator.unsafe[0] is 16"]),
        ("[0, 3, 3, 3,", "[3, 3, 3,", ["baseline.actions has shape (15,)", "environment's 16 states"]),
        ("horizon = 6", "horizon = 6\nknown = []", ["`known` beside simulator.gymnasium"]),
        ("FrozenLake-v1", "CartPole-v1", ["could not be made"]),
    ],
)
def test_mistakes_about_an_environment(tmp_path, old, new, words):
    assert old in LAKE
    refused(tmp_path, LAKE.replace(old, new, 1), *words)


def test_an_environment_without_discrete_spaces(tmp_path):
    text = LAKE.replace('arguments = {map_name = "4x4", is_slippery = false}\n', "").replace(
        "FrozenLake-v1", "CartPole-v1", 1
    )
    text = text.replace("unsafe = [5, 7, 11, 12]\n", "unsafe_reward = 0\n").replace('paid = "arrival"\n', "")
    refused(tmp_path, text, "not Discrete", "Discretised")
    refused(
        tmp_path, text.replace("unsafe_reward = 0", "unsafe = [5]"), "simulator.gymnasium is 'CartPole-v1'", "not Discrete"
    )


def test_an_environment_without_a_table(tmp_path):
    text = LAKE.replace('arguments = {map_name = "4x4", is_slippery = false}\n', "")
    refused(tmp_path, text.replace("FrozenLake-v1", "tests.preflight.specs:NoTable-v0", 1),
            "simulator.gymnasium is 'tests.preflight.specs:NoTable-v0'", "no transition table",
            "estimate_by_running")  # fmt: skip


def test_a_module_that_is_not_found_must_be_importable(tmp_path):
    (tmp_path / "mine.py").write_text("")
    refused(tmp_path, LAKE.replace("FrozenLake-v1", "mine:Lake-v0", 1), "must be importable", "PYTHONPATH=.")


# Guessed realities


def test_a_guess_moves_its_rows_by_exactly_the_gap():
    specification = tiny()
    found = guess_reality(specification, Guess(rows=2, gap=0.4, seed=1))
    gaps = found.kernel.distances_to(specification.simulator.kernel).reshape(-1)
    np.testing.assert_allclose(gaps[found.wrong], 0.4)
    np.testing.assert_array_equal(gaps[~found.wrong], 0.0)
    assert found.wrong.sum() == 2
    again = guess_reality(specification, Guess(rows=2, gap=0.4, seed=1))
    np.testing.assert_array_equal(again.kernel.to_dense(), found.kernel.to_dense())


def test_a_guess_keeps_known_rows_and_the_support():
    known = np.array([[False, False], [True, True]])
    listed = Guess(rows=np.ones((2, 2), dtype=bool), gap=0.5)
    found = guess_reality(tiny(known=known), listed)
    np.testing.assert_array_equal(found.wrong, [True, True, False, False])
    with pytest.raises(InvalidInput, match=r"row .state 0, action 0. cannot be 0.5 away"):
        guess_reality(tiny(support=s2r.Kernel.from_dense(ROWS)), listed)


def test_random_rows_are_drawn_again_while_the_baseline_loses_its_margin():
    """A gap of 0.5 on row (0, 0) leaves V_c = 1 + 0.5 + 0.25 of 3: less than 1.5 + 1. Any other row leaves it alone."""
    for seed in range(6):
        found = guess_reality(tiny(), Guess(rows=1, gap=0.5, seed=seed))
        assert not found.wrong[0]
        assert found.drawn == found.lost_margin + 1
    lost = guess_reality(tiny(), Guess(rows=4, gap=0.5))
    assert lost.drawn == lost.lost_margin == 20


def test_a_guess_that_cannot_be():
    for rows, words in (
        (5, "at most the 4"),
        (-1, "guess.rows is -1"),
        (np.ones(3, dtype=bool), "guess.rows has shape"),
    ):
        with pytest.raises(InvalidInput, match=words):
            guess_reality(tiny(), Guess(rows=rows))
    with pytest.raises(InvalidInput, match=r"guess.gap is 1.5"):
        Guess(gap=1.5)


def test_without_a_number_as_many_rows_are_wrong_as_can_be():
    everything = np.ones((2, 2), dtype=bool)
    for specification in (tiny(known=everything), tiny(support=s2r.Kernel.from_dense(ROWS))):
        assert not guess_reality(specification, Guess()).wrong.any()
    assert guess_reality(tiny(), Guess()).wrong.sum() == 1


def test_rows_per_step_can_be_guessed_too():
    model = s2r.CMDP.of(s2r.Kernel.from_dense(ROWS).repeated(3), 3, 0, s2r.AtLeast(SAFE, 1.5, "upright"))
    specification = s2r.Problem(model, tiny().baseline, tiny().settings)
    found = guess_reality(specification, Guess(rows=np.array([[False, True], [False, False]]), gap=0.3))
    np.testing.assert_allclose(found.kernel.distances_to(model.kernel).reshape(-1).reshape(3, 4), [[0.0, 0.3, 0.0, 0.0]] * 3)


# Structure

TIED = """
[ties]
classes = [[0, -1], [-1, -1]]
successors = [[[0, 1], [-1, -1]], [[-1, -1], [-1, -1]]]
exact = true
label_names = ["stays", "leaves"]
"""


def test_ties_are_read(tmp_path):
    np.save(tmp_path / "classes.npy", np.array([[0, -1], [-1, -1]]))
    text = TOML + TIED.replace("classes = [[0, -1], [-1, -1]]", 'classes = "classes.npy"')
    problem = read_spec_file(write(tmp_path, text)).problem
    same(problem, read_spec_file(write(tmp_path, TOML + TIED)).problem)
    assert (problem.ties.exact, problem.ties.label_names) == (True, ("stays", "leaves"))
    np.testing.assert_array_equal(problem.ties.classes, [[0, -1], [-1, -1]])


def test_structure_of_an_environment_is_in_its_own_states(tmp_path):
    np.savez(tmp_path / "ties.npz", classes=np.zeros((16, 4), dtype=int), successors=lake_moves())
    text = (
        LAKE.replace("unsafe =", "pool_copies = true\nunsafe =")
        + """
[ties]
classes = "ties.npz:classes"
successors = "ties.npz:successors"
"""
    )
    given = read_spec_file(write(tmp_path, text))
    assert given.problem.ties.num_labels == 1
    assert len(given.problem.copies) == given.system.model.num_states
    refused(tmp_path, LAKE + "\n[ties]\nclasses = 3", "ties lacks 'successors'")


def lake_moves():
    import gymnasium

    table = gymnasium.make("FrozenLake-v1", is_slippery=False).unwrapped.P
    return np.array([[[table[s][a][0][1]] for a in range(4)] for s in range(16)])


# The method


def test_declared_rewards_are_written_as_the_algorithm_with_arrays_in_files(tmp_path):
    reward = np.array([[0.0, 0.5], [1.0, 1.0]])
    np.savez(tmp_path / "rewards.npz", far=reward, states=np.array([0.0, 1.0]))
    written = '{kind = "declared rewards", rewards = {far = "rewards.npz:far", near = [0.0, 1.0]}%s}'
    for more, accuracy, relative in (("", 0.05, True), (", accuracy = 0.1, relative = false", 0.1, False)):
        method = read_spec_file(write(tmp_path, f"{TOML}algorithm = {written % more}\n")).method
        assert (method.name, method.accuracy, method.relative) == ("declared rewards", accuracy, relative)
        assert list(method.rewards) == ["far", "near"]
        np.testing.assert_array_equal(method.rewards["far"], reward)
        np.testing.assert_array_equal(method.rewards["near"], [[0.0, 0.0], [1.0, 1.0]])
    table = f'{TOML}[settings.algorithm]\nkind = "declared rewards"\n[settings.algorithm.rewards]\n'
    assert list(read_spec_file(write(tmp_path, f'{table}far = "rewards.npz:far"\n')).method.rewards) == ["far"]
    refused(tmp_path, f'{table}far = "rewards.npz:fra"\n', "settings.algorithm.rewards.far is 'rewards.npz:fra'")
    refused(tmp_path, f"{table}far = [[0.0, 2.0], [0.0, 0.0]]\n", "settings.algorithm.rewards.far has shape (2, 2)")
    refused(tmp_path, f'{TOML}algorithm = {{kind = "declared rewards"}}\n', "settings.algorithm lacks 'rewards'")
    lake = LAKE.replace("tolerance = 0.025", f"tolerance = 0.025\nalgorithm = {written % ''}").replace(
        '"rewards.npz:far"', '"environment"'
    )
    lake = lake.replace("[0.0, 1.0]}", str([0.0] * 15 + [1.0]) + "}")
    given = read_spec_file(write(tmp_path, lake))
    assert given.method.rewards["near"].shape == given.problem.simulator.kernel.shape
    np.testing.assert_array_equal(given.method.rewards["far"], given.system.unit_reward)


def test_who_writes_a_table_for_the_method_is_told_where_it_belongs(tmp_path):
    for key in ("method", "algorithm"):
        said = refused(tmp_path, f'{TOML}[{key}]\nkind = "reward-free"\n', f"unknown key '{key}'")
        assert "settings.algorithm" in said
    document = {**json.loads(tiny().to_text()), "method": "reward-free"}
    with pytest.raises(InvalidInput, match=r"settings\.algorithm"):
        s2r.Problem.from_text(json.dumps(document))


def test_a_file_says_how_it_is_learnt(tmp_path):
    text = f'{TOML}algorithm = "reward-free safe RL"\n'
    given = read_spec_file(write(tmp_path, text))
    assert isinstance(given.learner().method, s2r.methods.RewardFree)
    again = read_spec_file(write(tmp_path, given.to_text(), "again.json"))
    same(again.problem, given.problem)
    assert again.method == given.method


# What can follow


@pytest.mark.parametrize(
    "written", ['support = "simulator"\n', '\n[support]\ngymnasium = "FrozenLake-v1"\narguments = {map_name = "4x4"}\n']
)
def test_the_support_of_an_environment_is_that_of_another_or_of_the_simulator(tmp_path, written):
    text = LAKE + written if "[" in written else written + LAKE
    given = read_spec_file(write(tmp_path, text))
    support, model = given.problem.support, given.problem.simulator
    other = given.reality if "[" in written else model.kernel  # the real lake is slippery too
    for row in range(model.kernel.num_rows):
        np.testing.assert_array_equal(support.row(row)[0], other.row(row)[0])


def test_the_support_of_arrays_may_be_the_simulators(tmp_path):
    same(
        read_spec_file(write(tmp_path, f'support = "simulator"\n{TOML}')).problem, tiny(support=s2r.Kernel.from_dense(ROWS))
    )
    refused(tmp_path, f'support = "simulater"\n{TOML}', "support is 'simulater'")
    refused(tmp_path, f"{LAKE}[support]\ntransition = [[[1.0]]]\n", "support has an unknown key 'transition'")

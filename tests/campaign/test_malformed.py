"""Thousands of malformed episodes: each is refused by name, and nothing of it is recorded."""

import json
import sqlite3
import string
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import safe2real as s2r
from safe2real.campaign import Campaign
from safe2real.errors import InvalidInput, Safe2RealError
from safe2real.methods.document import problem_and_method
from safe2real.model.trajectory import Trajectory
from tests.problem.documents import (
    NOT_FINITE,
    SAFE,
    TRANSITION,
    A,
    H,
    S,
    outside,
    pooled,
)
from tests.refusals import BY_HAND, EPISODES, IDS, assert_helpful, shares, stable

pytestmark = pytest.mark.filterwarnings("error")  # a warning of numpy would be a check that came too late


# ------------------------------------------------------------------------------------------------------------- episodes


class Watched:
    """A campaign with one deployment out, and an eye on its database."""

    def __init__(self, path):
        self.campaign = Campaign.create(path, problem_and_method(json.dumps(pooled()))[0])
        deployment = self.campaign.ask(worker="robot")
        self.id, self.policy = deployment.id, deployment.policy
        self.database = sqlite3.connect(path)
        self.refused = Counter()
        self.before, self.whole = self.newest(), self.everything()

    def newest(self):
        newest = "(SELECT digest FROM safe2real_event ORDER BY sequence DESC LIMIT 1)"
        policies = "(SELECT count(*) FROM safe2real_policy)"
        (row,) = self.database.execute(f"SELECT count(*), max(sequence), {newest}, {policies} FROM safe2real_event")
        return row

    def everything(self):
        tables = ("safe2real_campaign", "safe2real_event", "safe2real_policy")
        return [self.database.execute(f"SELECT * FROM {table}").fetchall() for table in tables]

    def refuses(self, door, call, place):
        try:
            answer = call()
        except Safe2RealError as error:
            assert_helpful(error, place)
        else:
            raise AssertionError(f"{door} took it: {answer}")
        assert self.newest() == self.before, f"{door} recorded something"
        self.refused[door] += 1

    def episode(self, *states):
        """An episode as the deployed policy would have made it."""
        return {"states": list(states), "actions": [int(self.policy.actions[h, s]) for h, s in enumerate(states[:-1])]}

    def still_works(self):
        """After all that, the record is as before, and the deployment is told as if nothing had happened."""
        assert self.everything() == self.whole
        episode = self.episode(0, 1, 2, 2, 1)
        assert self.campaign.tell(self.id, episode).new
        assert self.campaign.import_log("log", self.policy, [episode], overlap="count").new
        assert self.campaign.ask(worker="robot").id != self.id
        ledger = self.campaign.verify()
        assert ledger.holds, ledger.describe()
        assert (ledger.deployments, ledger.episodes) == (2, 2)
        self.database.close()
        self.campaign.close()


@pytest.fixture
def watched(tmp_path):
    return Watched(tmp_path / "campaign.db")


no_number = st.one_of(
    st.text(max_size=4),
    st.none(),
    st.lists(st.integers(0, 1), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(0, 1), max_size=1),
    NOT_FINITE,
    st.floats(0.001, 0.999),
)
no_integer = st.one_of(no_number, st.booleans(), st.sampled_from([0.5, 1.5, -0.5, 1e308]))


@st.composite
def broken_episodes(draw, policy):
    """(states, actions, partial, damage, place): lists that are no episode of the system and the policy."""
    states = [0, *draw(st.lists(st.integers(0, S - 1), min_size=H, max_size=H))]
    actions = [int(policy.actions[h, states[h]]) for h in range(H)]
    partial = draw(st.booleans())
    if partial and draw(st.booleans()):
        cut = draw(st.integers(1, H))
        states, actions = states[: cut + 1], actions[:cut]
    damage = draw(st.sampled_from(["length", "outside", "entry", "entry", "whole", "never"]))
    place, chosen, size = draw(st.sampled_from([("states", states, S), ("actions", actions, A)]))
    index = draw(st.integers(0, len(chosen) - 1))
    if damage == "length":

        def wrong(sizes):
            return sizes != (H + 1, H) and not (partial and 1 <= sizes[1] <= H and sizes[0] == sizes[1] + 1)

        any_sizes = st.tuples(st.integers(0, 2 * H), st.integers(0, 2 * H))
        sizes = draw(st.one_of(st.sampled_from([(1, 0), (H + 2, H + 1)]), any_sizes.filter(wrong)))
        states, actions = (states + [0] * 2 * H)[: sizes[0]], (actions + [0] * 2 * H)[: sizes[1]]
        place = "actions"
    elif damage == "outside":
        chosen[index] = draw(st.one_of(outside(size), st.just(10**5000)))  # so many digits that Python will not print them
    elif damage == "entry":
        chosen[index] = draw(no_integer)
    elif damage == "whole":
        junk = draw(st.one_of(no_integer.filter(lambda value: not isinstance(value, list)), st.integers()))
        states, actions = (junk, actions) if place == "states" else (states, junk)
    else:
        h = draw(st.integers(0, len(actions) - 1))
        actions[h], place = 1 - actions[h], rf"actions\[{h}\]"
    return states, actions, partial, damage, place


@shares
def test_malformed_episodes_are_refused_at_every_door(watched, share):
    campaign, good = watched.campaign, watched.episode(*[0] * (H + 1))

    @stable(int(1_600 * share))
    @given(broken_episodes(watched.policy), st.integers(0, 2))
    def check(broken, position):
        states, actions, partial, damage, place = broken
        episode = {"states": states, "actions": actions}
        log = [good, good]
        log.insert(position, episode)
        named = rf"episodes\[{position}\].*{place}"
        watched.refuses("tell an object", lambda: campaign.tell(watched.id, episode, partial=partial), place)
        watched.refuses("import_log", lambda: campaign.import_log("log", watched.policy, log, partial=partial), named)
        if damage in ("length", "outside", "never"):

            def imported():
                log[position] = Trajectory(states, actions)  # not by Trajectory.of, which would refuse it
                return campaign.import_log("log", watched.policy, log, partial=partial)

            watched.refuses("tell", lambda: campaign.tell(watched.id, Trajectory(states, actions), partial=partial), place)
            watched.refuses("import", imported, place)

    check()
    assert watched.refused.total() >= 0.8 * share * EPISODES, watched.refused
    assert min(watched.refused[door] for door in ("tell", "tell an object", "import_log", "import")) > 400 * share
    watched.still_works()


@st.composite
def arrays_by_hand(draw, valid, size):
    """What cannot be the states or actions of a trajectory, as arrays of all kinds."""
    array, n = np.array(valid), len(valid)
    index = draw(st.integers(0, n - 1))
    kind = draw(st.sampled_from(["type", "shape", "outside", "float", "object", "no array"]))
    if kind == "type":
        dtype = draw(st.sampled_from(["?", "U3", "S3", "c16", "c8", "M8[s]", "m8[s]", "O", [("state", "i4")], "V4"]))
        return array.astype(np.uint32).view("V4") if dtype == "V4" else array.astype(dtype)
    if kind == "shape":
        shape = draw(st.sampled_from([(n, 1), (1, n), (1, 1, n), (n, 0), (0,), ()]))
        return np.zeros(shape, dtype=np.uint32)
    if kind == "outside":
        dtype = draw(st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]))
        limits = np.iinfo(dtype)
        negative = [st.integers(limits.min, -1)] if limits.min else []
        wrong = array.astype(dtype)
        wrong[index] = draw(st.one_of(st.integers(size, limits.max), *negative))
        return wrong
    if kind == "float":
        wrong = array.astype(draw(st.sampled_from(["f2", "f4", "f8", "g"])))
        wrong[index] = draw(st.one_of(NOT_FINITE, st.sampled_from([0.5, -1.0, -0.25, float(size), 60_000.0])))
        return wrong
    if kind == "object":
        wrong = array.astype(object)
        wrong[index] = draw(st.one_of(no_number, outside(size)))
        return wrong
    no_arrays = [None, "010", b"010", 3, 0.5, {}, {0, 1}, [[0], [0, 1]], print, [None], [[[]]], range(-3, 2)]
    return draw(st.sampled_from(no_arrays))


@shares
def test_trajectories_made_by_hand_are_refused(watched, share):
    campaign, good = watched.campaign, watched.episode(*[0] * (H + 1))
    states, actions = good["states"], good["actions"]

    @stable(int(850 * share))
    @given(st.data(), st.sampled_from(["states", "actions"]), st.booleans())
    def check(data, name, partial):
        valid, size = (states, S) if name == "states" else (actions, A)
        wrong = data.draw(arrays_by_hand(valid, size))
        pair = (wrong, np.array(actions)) if name == "states" else (np.array(states), wrong)
        place = f"{name}|actions"  # lengths that do not fit are about both
        watched.refuses("tell", lambda: campaign.tell(watched.id, Trajectory(*pair), partial=partial), place)
        watched.refuses("tell", lambda: campaign.tell(watched.id, pair, partial=partial), place)

        def imported():
            return campaign.import_log("log", watched.policy, [good, Trajectory(*pair)], partial=partial)

        watched.refuses("import", imported, place)

    check()
    for other in ([states, actions], None, 5, "0101", (states, actions, [])):
        watched.refuses("tell", lambda other=other: campaign.tell(watched.id, other), "the episode is a .*give the pair")
    assert watched.refused.total() >= share * BY_HAND, watched.refused
    watched.still_works()


@shares
def test_keys_ids_sources_and_policies_that_cannot_be_are_refused(watched, share):
    campaign, name, good = watched.campaign, watched.campaign.name, watched.episode(*[0] * (H + 1))
    other = "00000000" if name != "00000000" else "11111111"
    numbers = st.integers(1, 10**9)
    ids = st.one_of(
        st.text(max_size=12),
        st.text(string.hexdigits + "-", max_size=14),
        st.one_of(numbers, st.floats(), st.none(), st.booleans(), st.binary(max_size=10)),
        st.lists(st.just(watched.id), max_size=2),
        numbers.map(lambda number: f"{other}-{number}"),
        numbers.map(lambda number: f"{name}-{number + 1}"),  # never handed out
        st.sampled_from(["0", "01", "1\n", "+1", "-1", "1.0", "1e0", "\u0661", "", str(2**64)]).map(lambda n: f"{name}-{n}"),
        st.sampled_from([name, "-1", f" {name}-1", f"{name.upper()}-1x", f"{name}1"]),
    ).filter(lambda id: id != watched.id)
    no_source = st.one_of(st.none(), st.integers(), st.sampled_from(["", "  ", "x" * 201, "a\x00b", "\ud800"]))
    wider = s2r.MarkovPolicy.uniform(horizon=H, num_states=S, num_actions=A + 1)
    never = s2r.MarkovPolicy.deterministic([[1 - a] * S for a in good["actions"]], num_actions=A)
    no_policy = st.sampled_from([None, "pi", 1, s2r.Mixture.of([1.0], [watched.policy]), wider, never, [[0] * S] * H])
    keys = st.one_of(
        st.text(max_size=5).filter(lambda key: key not in good).map(lambda key: {**good, key: 0}),
        st.sampled_from(["states", "actions"]).map(lambda key: {key: good[key]}),
        st.dictionaries(st.one_of(st.text(max_size=6), st.integers()), st.just(good["states"]), max_size=3),
        no_integer,
    )

    @stable(int(300 * share))
    @given(ids, no_source, no_policy, keys)
    def check(id, source, policy, wrong):
        watched.refuses("tell an object", lambda: campaign.tell(id, good), "deployment")
        watched.refuses("tell", lambda: campaign.tell(id, Trajectory(**good)), "deployment")
        watched.refuses("abandon", lambda: campaign.abandon(id, "broken"), "deployment")
        watched.refuses("source", lambda: campaign.import_log(source, watched.policy, [good]), "source")
        watched.refuses("policy", lambda: campaign.import_log("log", policy, [good]), "polic")
        watched.refuses("keys", lambda: campaign.tell(watched.id, wrong), "the episode is .*; give")

    check()
    watched.refuses("none", lambda: campaign.import_log("log", watched.policy, []), "no episode")
    watched.refuses("one", lambda: campaign.import_log("log", watched.policy, good), r"episodes\[0\]")
    assert watched.refused.total() >= share * IDS, watched.refused
    watched.still_works()


def test_policies_put_together_by_hand_must_fit_together():
    actions, table = np.zeros((H, S), dtype=np.uint32), np.full((H, S, A), 0.5)
    assert s2r.MarkovPolicy(H, S, A, actions, None).shape == s2r.MarkovPolicy(H, S, A, None, table).shape
    for wrong in (
        (None, None),
        (actions[:1], None),
        (actions.tolist(), None),
        (None, table[:, :, :1]),
        (table, None),
        (None, 1),
    ):
        with pytest.raises(InvalidInput, match=r"a policy of shape .* by hand from .*; build one with MarkovPolicy"):
            s2r.MarkovPolicy(H, S, A, *wrong)


@pytest.mark.parametrize(
    "wrong", [None, json.dumps(pooled()), pooled(), problem_and_method(json.dumps(pooled()))[0].simulator]
)
def test_create_wants_a_problem_and_leaves_no_file_behind(tmp_path, wrong):
    with pytest.raises(InvalidInput, match="give a Problem"):
        Campaign.create(tmp_path / "campaign.db", wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("label", ["\ud800", "a\x00b", "line\nline"])
def test_labels_that_a_database_cannot_keep_are_refused_before_there_is_one(label):
    """Half a character cannot be encoded, and PostgreSQL keeps no character zero."""
    with pytest.raises(InvalidInput, match=r"constraints\[0\]\.name is .*printable"):
        s2r.CMDP.of(s2r.Kernel.from_dense(TRANSITION), H, 0, s2r.AtLeast(SAFE, 1.0, name=label))

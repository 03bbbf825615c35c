"""More than 10,000 malformed episodes and specifications: each is refused by name, and nothing of it is recorded.

Every damage is known to make its document invalid; what may turn out valid after all is read again instead and not counted.
"""

import base64
import copy
import json
import re
import sqlite3
import string
import subprocess
import sys
import zlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import safe2real as s2r
from safe2real import radii
from safe2real.campaign import Campaign
from safe2real.errors import InvalidInput, Safe2RealError
from safe2real.methods.named import problem_and_method
from safe2real.model.trajectory import Trajectory
from safe2real.problem.problem import Problem
from safe2real.problem.settings import Settings
from tests.cases import each

# How many refusals each test must count; together more than 10,000.
EPISODES, BY_HAND, IDS, DOCUMENTS, TEXTS, OBJECTS = 5_000, 1_500, 1_700, 3_000, 500, 300
assert EPISODES + BY_HAND + IDS + DOCUMENTS + TEXTS + OBJECTS > 10_000

H, S, A = 4, 3, 2
TRANSITION = [[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]], [[0.3, 0.6, 0.1], [0.2, 0.2, 0.6]], [[0.0, 0.0, 1.0], [0.1, 0.0, 0.9]]]
SAFE = [[1.0, 1.0], [1.0, 0.5], [0.0, 0.0]]

NOT_FINITE = st.sampled_from([float("nan"), float("inf"), -float("inf")])

pytestmark = pytest.mark.filterwarnings("error")  # a warning of numpy would be a check that came too late


def stable(examples):
    """The same examples in every run, so that none of them fails by chance."""
    return settings(
        derandomize=True, max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


def assert_helpful(error, place):
    """The message names the place, and is made for people: nothing raw, nothing endless, and it says what would do."""
    message = str(error)
    assert re.search(place, message), f"{place!r} is not named: {message}"
    assert re.search(r"[;:] |, so it cannot", message), f"no cure: {message}"
    assert 20 < len(message) < 600, message
    assert not re.search(r"Traceback|assert|<class|object at 0x|\n", message), message


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
        assert self.campaign.tell_json(self.id, episode).new
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


def outside(size):
    """Whole numbers that are no state or action of a system with `size` of them."""
    large = [2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 10**400]
    return st.one_of(
        st.integers(size, size + 3), st.integers(-3, -1), st.sampled_from(large), st.sampled_from(large).map(lambda n: -n)
    )


no_number = st.one_of(
    st.text(max_size=4),
    st.none(),
    st.lists(st.integers(0, 1), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(0, 1), max_size=1),
    NOT_FINITE,
    st.floats(0.001, 0.999),
)
no_integer = st.one_of(no_number, st.booleans(), st.sampled_from([0.0, 1.0, -0.0, 1e308]))


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


@pytest.mark.parametrize("share", [0.15, pytest.param(1.0, marks=pytest.mark.slow)])
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
        watched.refuses("tell_json", lambda: campaign.tell_json(watched.id, episode, partial=partial), place)
        watched.refuses("import_log", lambda: campaign.import_log("log", watched.policy, log, partial=partial), named)
        if damage in ("length", "outside", "never"):
            made = Trajectory(states, actions)  # not by Trajectory.of, which would refuse it
            log[position] = made
            watched.refuses("tell", lambda: campaign.tell(watched.id, made, partial=partial), place)
            watched.refuses("import", lambda: campaign.import_log("log", watched.policy, log, partial=partial), place)

    check()
    assert watched.refused.total() >= 0.8 * share * EPISODES, watched.refused
    assert min(watched.refused[door] for door in ("tell", "tell_json", "import_log", "import")) > 400 * share
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


def test_trajectories_made_by_hand_are_refused(watched):
    campaign, good = watched.campaign, watched.episode(*[0] * (H + 1))
    states, actions = good["states"], good["actions"]

    @stable(850)
    @given(st.data(), st.sampled_from(["states", "actions"]), st.booleans())
    def check(data, name, partial):
        valid, size = (states, S) if name == "states" else (actions, A)
        wrong = data.draw(arrays_by_hand(valid, size))
        made = Trajectory(wrong, np.array(actions)) if name == "states" else Trajectory(np.array(states), wrong)
        place = f"{name}|actions"  # lengths that do not fit are about both
        watched.refuses("tell", lambda: campaign.tell(watched.id, made, partial=partial), place)
        log = [good, made]
        watched.refuses("import", lambda: campaign.import_log("log", watched.policy, log, partial=partial), place)

    check()
    for other in ([states, actions], good, None, 5, "0101", (states, actions)):
        watched.refuses("tell", lambda other=other: campaign.tell(watched.id, other), "an episode is a .*give Trajectory")
    assert watched.refused.total() >= BY_HAND, watched.refused
    watched.still_works()


def test_keys_ids_sources_and_policies_that_cannot_be_are_refused(watched):
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

    @stable(300)
    @given(ids, no_source, no_policy, keys)
    def check(id, source, policy, wrong):
        watched.refuses("tell_json", lambda: campaign.tell_json(id, good), "deployment")
        watched.refuses("tell", lambda: campaign.tell(id, Trajectory(**good)), "deployment")
        watched.refuses("abandon", lambda: campaign.abandon(id, "broken"), "deployment")
        watched.refuses("source", lambda: campaign.import_log(source, watched.policy, [good]), "source")
        watched.refuses("policy", lambda: campaign.import_log("log", policy, [good]), "polic")
        watched.refuses("keys", lambda: campaign.tell_json(watched.id, wrong), r'the episode is .*; give \{"states"')

    check()
    watched.refuses("none", lambda: campaign.import_log("log", watched.policy, []), "no episode")
    watched.refuses("one", lambda: campaign.import_log("log", watched.policy, good), r"episodes\[0\]")
    assert watched.refused.total() >= IDS, watched.refused
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


# ------------------------------------------------------------------------------------------------------- specifications


def pack(array):
    array = np.asarray(array)
    content = base64.b64encode(zlib.compress(array.tobytes())).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "zlib": content}


def pooled():
    """Stored transitions, the same at every step; literal constants."""
    dense = np.array(TRANSITION)
    states, actions, successors = np.nonzero(dense)
    return {
        "horizon": H,
        "simulator": {
            "num_states": S,
            "num_actions": A,
            "states": states.tolist(),
            "actions": actions.tolist(),
            "successors": successors.tolist(),
            "probabilities": dense[states, actions, successors].tolist(),
        },
        "start": 0,
        "constraints": [{"name": "upright", "utility": SAFE, "threshold": 1.0}],
        "baseline": {"kind": "deterministic", "num_actions": A, "actions": [0, 0, 0]},
        "settings": {
            "margin": 1.0,
            "calibrated_gap": 0.1,
            "mismatch_gap": 0.6,
            "tolerance": 0.25,
            "delta": 0.05,
            "seed": 7,
            "algorithm": "sim-to-real safe RL",
            "radius": {"kind": "literal"},
            "bonus_scale": 1.0,
        },
    }


def per_step():
    """Dense rows for every step, costs and utilities, several margins, heuristic constants."""
    return {
        "horizon": H,
        "simulator": {"transition": [TRANSITION] * H},
        "start": [0.5, 0.5, 0.0],
        "constraints": [{"cost": [SAFE] * H, "limit": 3.5}, {"name": "level", "utility": SAFE, "threshold": 0.5}],
        "baseline": {"kind": "stochastic", "probabilities": [[[0.5, 0.5]] * S] * H},
        "settings": {
            "margin": [0.5, 1.0],
            "calibrated_gap": 0.0,
            "mismatch_gap": 0.5,
            "tolerance": 0.5,
            "radius": {"kind": "scaled", "scale": 0.4},
        },
        "known": np.zeros((H, S, A), dtype=bool).tolist(),
    }


def packed():
    """The same system as `pooled`, as large ones are written."""
    document = pooled()
    simulator = document["simulator"]
    for name, dtype in (("states", "<u4"), ("actions", "<u2"), ("successors", "|u1"), ("probabilities", "<f8")):
        simulator[name] = pack(np.array(simulator[name], dtype=dtype))
    document["start"] = pack(np.array([1.0, 0.0, 0.0]))
    document["constraints"][0]["utility"] = pack(np.array(SAFE))
    document["baseline"]["actions"] = pack(np.zeros((H, S), dtype="|u1"))
    document["known"] = pack(np.zeros((S, A), dtype="|b1"))
    return document


# Through JSON, so that no list is in two places.
VALID = json.loads(json.dumps({"pooled": pooled(), "per step": per_step(), "packed": packed()}))


def test_the_documents_that_are_damaged_below_are_valid():
    read = {}
    for name, document in VALID.items():
        text = json.dumps(document)
        read[name] = problem_and_method(text)[0].to_text()
        assert problem_and_method(text.encode())[0].to_text() == read[name]
    assert json.loads(read["packed"])["simulator"] == json.loads(read["pooled"])["simulator"]


def nodes(value, path=()):
    """(path, value) of everything in a document."""
    yield path, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in inside:
        yield from nodes(inner, (*path, step))


NODES = {name: dict(nodes(document)) for name, document in VALID.items()}
PLACES = {name: [path for path in paths if path] for name, paths in NODES.items()}


def at(document, path):
    for step in path:
        document = document[step]
    return document


def put(document, path, value):
    at(document, path[:-1])[path[-1]] = value


def is_packed(name, path):
    """Whether the path leads to a packed array, or into one."""
    above = [NODES[name][path[:n]] for n in range(len(path) + 1)]
    return any(isinstance(value, dict) and "zlib" in value for value in above)


def is_listed(name, path):
    """Whether the path leads to an array of numbers written as lists, or into one."""
    arrays = {"states", "actions", "successors", "probabilities", "transition", "utility", "cost", "known"}
    within = arrays.intersection(path) or (path[0] == "start" and name == "per step")
    return bool(within) and not is_packed(name, path)


def place_of(path):
    """What a message about a node must name: its nearest key, or what that is called where the numbers are checked."""
    key = [step for step in path if isinstance(step, str)][-1]
    names = {
        "horizon": "horizon|has shape",
        "num_states": "num_states|transition|states",
        "num_actions": "num_actions|transition|actions|baseline",
        "transition": "transition|kernel",
        "states": "states|transition|lists",
        "actions": "actions|transition|lists|baseline has shape",
        "successors": "successors|transition|lists",
        "probabilities": "probabilities|transition|lists|baseline",
        "kind": "radius|baseline",
        "threshold": "threshold|margin of constraint 0",
        "limit": "limit|margin of constraint 0",
        "calibrated_gap": "calibrated_gap|mismatch_gap",
    }
    return names.get(key, key)


REQUIRED = {
    "pooled": [
        *[(key,) for key in ("horizon", "simulator", "baseline", "settings")],
        *[("simulator", key) for key in pooled()["simulator"]],
        *[("baseline", key) for key in ("kind", "num_actions", "actions")],
        *[("settings", key) for key in ("margin", "calibrated_gap", "mismatch_gap", "tolerance")],
        *[("constraints", 0, key) for key in ("utility", "threshold")],
        ("settings", "radius", "kind"),
    ],
    "per step": [
        ("simulator", "transition"),
        ("constraints", 0, "cost"),
        ("constraints", 0, "limit"),
        ("baseline", "probabilities"),
        ("settings", "radius", "kind"),
        ("settings", "radius", "scale"),
    ],
    "packed": [
        (*path, key)
        for path in (("simulator", "states"), ("start",), ("constraints", 0, "utility"), ("baseline", "actions"), ("known",))
        for key in ("dtype", "shape", "zlib")
    ],
}
BELOW_0, ABOVE_1 = st.floats(-1e300, -1e-6), st.floats(1.0 + 1e-6, 1e300)
NOT_POSITIVE = st.one_of(st.just(0), st.just(-0.0), BELOW_0, NOT_FINITE)
HUGE = st.sampled_from([2**31, 2**32, 2**33, 2**53, 2**62, 2**63, 2**64, 2**70, 10**30, 10**400, 10**4000])
NO_COUNT = st.one_of(st.integers(-(2**70), 0), st.floats(), st.sampled_from([1.0, 4.0, True]))
NO_SEED = st.one_of(st.integers(max_value=-1), st.floats(), st.integers(min_value=2**64), st.just(True))
FRACTION = st.floats(0.01, 0.99)
NO_RADIUS = [{"kind": "literal", "scale": 1}, {"kind": "Literal"}, {"kind": "scaled"}, "literal", 0.4, {}]


def other_count(n):
    return st.one_of(NO_COUNT, HUGE, st.integers(1, 50).filter(lambda other: other != n))


def other_share(p):
    return st.floats(width=32).filter(lambda other: not abs(other - p) <= 1e-6)


# Numbers that cannot be, by document and place.
WRONG_NUMBERS = {
    "pooled": [
        (("horizon",), st.one_of(NO_COUNT, HUGE)),
        (("simulator", "num_states"), other_count(S)),
        (("simulator", "num_actions"), other_count(A)),
        (("simulator", "states", 3), st.one_of(outside(S), FRACTION, NOT_FINITE)),
        (("simulator", "actions", 5), st.one_of(outside(A), FRACTION, NOT_FINITE)),
        (("simulator", "successors", 2), st.one_of(outside(S), FRACTION, NOT_FINITE)),
        (("simulator", "probabilities", 4), other_share(0.8)),
        (("simulator", "probabilities", 0), st.floats(0.0, 0.6999)),
        (("start",), st.one_of(outside(S), FRACTION, NOT_FINITE)),
        (("constraints", 0, "utility", 1, 1), st.one_of(BELOW_0, ABOVE_1, NOT_FINITE)),
        (("constraints", 0, "threshold"), st.one_of(BELOW_0, NOT_FINITE, st.floats(H + 1e-6, 1e300), HUGE)),
        (("constraints", 0, "threshold"), st.floats(H - 1.0 + 1e-6, H)),  # no room for the margin
        (("baseline", "num_actions"), other_count(A)),
        (("baseline", "actions", 1), st.one_of(outside(A), FRACTION, NOT_FINITE)),
        (("settings", "margin"), st.one_of(NOT_POSITIVE, st.floats(H - 1.0 + 1e-6, 1e300), HUGE)),
        (("settings", "margin"), st.lists(st.floats(0.1, 1.0), max_size=4).filter(lambda margins: len(margins) != 1)),
        (("settings", "calibrated_gap"), st.one_of(BELOW_0, st.floats(0.6001, 1e300), NOT_FINITE, HUGE)),
        (("settings", "mismatch_gap"), st.one_of(BELOW_0, ABOVE_1, st.floats(0.0, 0.0999), NOT_FINITE, HUGE)),
        (("settings", "tolerance"), st.one_of(NOT_POSITIVE, st.floats(0.2501, 1e300), HUGE)),
        (("settings", "delta"), st.one_of(NOT_POSITIVE, st.just(1), st.floats(1.0, 1e300), HUGE)),
        (("settings", "seed"), NO_SEED),
        (("settings", "bonus_scale"), NOT_POSITIVE),
        (("settings", "algorithm"), st.text(max_size=20)),
        (("settings", "radius"), st.sampled_from(NO_RADIUS)),
    ],
    "per step": [
        (("horizon",), other_count(H)),
        (("simulator", "transition", 2, 1, 0, 1), other_share(0.6)),
        (("simulator", "transition", 2, 1, 0), st.just([1e308] * S)),  # whose sum is beyond the largest number
        (("start", 1), other_share(0.5)),
        (("start",), st.just([1e308] * S)),
        (("constraints", 0, "cost", 3, 2, 1), st.one_of(BELOW_0, ABOVE_1, NOT_FINITE)),
        (("constraints", 0, "limit"), st.one_of(BELOW_0, NOT_FINITE, st.floats(H + 1e-6, 1e300), HUGE)),
        (("constraints", 0, "limit"), st.floats(0.0, 0.4999)),  # no room for the margin
        (("baseline", "probabilities", 1, 2, 0), other_share(0.5)),
        (("baseline", "probabilities", 1, 2), st.just([1e308] * A)),
        (("settings", "margin", 1), st.one_of(NOT_POSITIVE, st.floats(3.5 + 1e-6, 1e300), HUGE)),
        (("settings", "radius", "scale"), NOT_POSITIVE),
        (("settings", "radius", "kind"), st.text(max_size=8).filter(lambda kind: kind != "scaled")),
    ],
    "packed": [(("simulator", "num_states"), other_count(S)), (("horizon",), other_count(H))],
}


def typos_of(key):
    """Slips of the keys that are near enough to be recognised."""
    typos = (key[:-1], key + "s", key.capitalize(), key[0] + key, key[1] + key[0] + key[2:], key.replace("_", "-"))
    return [typo for typo in typos if typo != key]


def wrong_types(name, path):
    """Values that cannot stand at a place because they are of another kind."""
    value = NODES[name][path]
    if isinstance(value, dict):
        numbers = [] if path == ("start",) else [0, 1, 0.5]  # a state would do there
        nothing = [] if path == ("known",) else [None]  # as would nothing here
        return [[], "x", True, *numbers, *nothing]
    if isinstance(value, list):
        return [{}, "x", True, ["x"], [{}]] + ([] if path == ("known",) else [None, [None]])
    if isinstance(value, str):
        return [None, 5, [], {}, True, 0.5]
    if isinstance(value, bool):
        return [None, "x", [], {}, 2, 0.5]
    if is_listed(name, path):  # where truth values are taken as 0 and 1
        return [None, "x", "0.5", [], {}, float("nan"), float("inf"), [0.5, 0.5], 10**400]
    return [None, "x", "0.5", "1", [], {}, True, False, [[1]], float("nan"), float("inf"), -float("inf")]


def bad_packings(good):
    """Changes that make of a packed array one that cannot be unpacked, or not as it says."""
    content, shape = base64.b64decode(good["zlib"]), good["shape"]
    raw = zlib.decompress(content)
    sizes = st.one_of(st.integers(0, 5), st.sampled_from([2**20, 2**39]))

    def zipped(changed):
        return {"zlib": base64.b64encode(changed).decode()}

    return st.one_of(
        st.sampled_from([{"dtype": d} for d in ("|O", "<f4", "<c16", ">f8", "float64", "V8", "<U1", "", 5, None, [])]),
        st.lists(sizes, max_size=6).filter(lambda other: other != shape).map(lambda other: {"shape": other}),
        st.sampled_from([{"shape": s} for s in ([-1], [2**40], [1] * 70, [2**39] * 600, 3, None, {}, "3", [[3]])]),
        st.sampled_from([{"shape": [s]} for s in (3.0, "3", None, True)]),
        st.integers(0, len(content) - 1).map(lambda n: zipped(content[:n])),
        st.integers(0, len(good["zlib"]) - 1).map(lambda n: {"zlib": good["zlib"][:n] + "!" + good["zlib"][n + 1 :]}),
        st.integers(0, len(good["zlib"]) - 1).map(lambda n: {"zlib": good["zlib"][:n] + "\n" + good["zlib"][n:]}),
        st.binary(max_size=20).map(zipped),
        st.binary(min_size=1, max_size=4).map(lambda junk: zipped(content + junk)),
        st.integers(1, 3).map(lambda n: zipped(zlib.compress(raw + bytes(n * 10**6)))),  # a bomb
        st.integers(1, len(raw)).map(lambda n: zipped(zlib.compress(raw[:-n]))),
        st.sampled_from([{"zlib": value} for value in (None, 5, [], {}, "", "é", "====", "AAAA")]),
    )


def zeros_and(shape, values):
    """Arrays of zeros with a wrong number at the end."""
    zeros = np.zeros(int(np.prod(shape)) - 1)
    return values.map(lambda value: np.append(zeros, value).reshape(shape))


TWOS = np.full((S, A), 2, dtype="|u1").view("|b1")  # truth values that are none
SHAPES = ((H, S + 1), (S + 1,), (1, H, S), (0,), (H, 0))
# Arrays that cannot be, packed: everything that a list is checked for.
WRONG_ARRAYS = [
    (("start",), zeros_and((S,), other_share(1.0))),
    (("constraints", 0, "utility"), zeros_and((S, A), st.one_of(BELOW_0, ABOVE_1, NOT_FINITE))),
    (("baseline", "actions"), zeros_and((H, S), st.one_of(st.integers(A, 2**40), FRACTION, NOT_FINITE))),
    (("baseline", "actions"), st.sampled_from([np.zeros(shape) for shape in SHAPES] + [np.zeros((H, S), dtype=bool)])),
    (("known",), st.sampled_from([np.zeros((S, A)), np.zeros((A, S), dtype=bool), TWOS])),
    (("simulator", "states"), zeros_and((15,), st.one_of(st.integers(S, 2**40), st.integers(-(2**40), -1), NOT_FINITE))),
    (("simulator", "probabilities"), zeros_and((15,), st.floats(width=32))),
    (("simulator", "successors"), st.sampled_from([np.zeros(14), np.zeros(16), np.zeros((15, 1)), np.zeros(0)])),
]


@st.composite
def damaged_documents(draw):
    """(text, place, damage): a document that cannot be read as a specification any more."""
    damages = ["deleted", "unknown", "type", "type", "number", "number", "number", "shape", "packed", "array"]
    damage = draw(st.sampled_from(damages))
    name = "packed" if damage in ("packed", "array") else draw(st.sampled_from(sorted(VALID)))
    document, found = copy.deepcopy(VALID[name]), NODES[name]
    if damage == "deleted":
        path = draw(st.sampled_from(REQUIRED[name]))
        del at(document, path[:-1])[path[-1]]
        place = place_of(path) if path[-1] != "cost" else "cost|utility"  # without it, the other form is expected
    elif damage == "unknown":
        objects = [path for path, value in found.items() if isinstance(value, dict) and path != ("settings", "radius")]
        inside = at(document, draw(st.sampled_from(objects)))
        key = draw(st.sampled_from([key for key in inside if len(key) > 3]))
        typo = draw(st.sampled_from([typo for typo in typos_of(key) if typo not in inside]))
        inside[typo] = draw(st.sampled_from([0, None, "x", [], {}]))
        place = rf"unknown key '{re.escape(typo)}' \(did you mean '{key}'\?\)"
    elif damage == "type":
        path = draw(st.sampled_from(PLACES[name]))
        put(document, path, draw(st.sampled_from(wrong_types(name, path))))
        place = place_of(path)
    elif damage == "number":
        path, numbers = draw(st.sampled_from(WRONG_NUMBERS[name]))
        put(document, path, draw(numbers))
        place = place_of(path)
    elif damage == "shape":
        lists = [path for path in PLACES[name] if isinstance(found[path], list) and is_listed(name, path)]
        path = draw(st.sampled_from(lists or [("simulator", "states", "shape"), ("known", "shape")]))
        value = at(document, path)
        index = draw(st.integers(0, len(value) - 1))
        changes = (value[:index] + value[index + 1 :], [*value, value[index]], [value], [])
        put(document, path, draw(st.sampled_from(changes)))
        place = place_of(path)
    elif damage == "packed":
        path = draw(st.sampled_from([path[:-1] for path in PLACES[name] if path[-1] == "zlib"]))
        at(document, path).update(draw(bad_packings(found[path])))
        place = path[-1]
    else:
        path, arrays = draw(st.sampled_from(WRONG_ARRAYS))
        put(document, path, pack(draw(arrays)))
        place = place_of(path)
    return json.dumps(document), place, damage


@pytest.mark.parametrize("share", [0.15, pytest.param(1.0, marks=pytest.mark.slow)])
def test_damaged_specifications_are_refused(share):
    refused = Counter()

    @stable(int(3_100 * share))
    @given(damaged_documents())
    def check(damaged):
        text, place, damage = damaged
        try:
            problem_and_method(text)[0]
        except InvalidInput as error:
            assert_helpful(error, f"{place}|(NaN|Infinity) is not a JSON number")
            refused[damage] += 1
        else:
            raise AssertionError(f"{damage} ({place}) was taken: {text}")

    check()
    assert refused.total() >= share * DOCUMENTS, refused
    assert min(refused.values()) >= 40 * share**2, refused  # there are only so many keys to delete


@each(
    ("name", "path", "value", "message"),
    [
        ("pooled", ("horizon",), 2.0, "horizon is 2.0; it must be a whole number of at least 1"),
        ("pooled", ("simulator", "states", 0), 7, r"simulator: states\[0\] is 7; states run from 0 to 2"),
        (
            "pooled",
            ("simulator", "probabilities", 0),
            1.5,
            r"transition\[0, 0\] gives state 0 probability 1.5; .*between 0 and 1",
        ),
        ("pooled", ("simulator", "probabilities", 0), 0.6, r"simulator: transition\[0, 0\] sums to 0.9; rows must sum to 1"),
        (
            "pooled",
            ("simulator", "num_states"),
            10**9,
            "simulator: transition.* sums to 0; .*15 transitions are given for 2000000000",
        ),
        (
            "pooled",
            ("simulator", "num_states"),
            2**40,
            "num_states is 1099511627776, .* at most 4294967295 rows can be indexed",
        ),
        (
            "pooled",
            ("baseline", "actions"),
            [0] * 5,
            r"baseline.actions has shape \(5,\); give one entry for each of the 3 states",
        ),
        ("pooled", ("baseline", "actions", 2), 2, r"baseline: actions\[2\] is 2; actions run from 0 to 1"),
        ("pooled", ("constraints", 0, "threshold"), "1.0", r"constraints\[0\].threshold is not an array of numbers: '1.0'"),
        ("pooled", ("constraints", 0, "threshold"), True, r"constraints\[0\].threshold is True; it must be a number"),
        (
            "pooled",
            ("constraints", 0, "utility", 1),
            [1.0],
            r"constraints\[0\].utility is ragged: .*; give rows of one length",
        ),
        ("pooled", ("constraints",), None, "constraints is None; give a list of objects with utility and threshold"),
        ("pooled", ("settings", "margin"), 10**400, r"margin is not an array of numbers: 1000000.*\(int too large"),
        (
            "pooled",
            ("settings", "tolerence"),
            0.1,
            r"settings has an unknown key 'tolerence' \(did you mean 'tolerance'\?\)",
        ),
        ("per step", ("start",), [0.5, 0.6, -0.1], r"start\[2\] is -0.1; probabilities lie between 0 and 1"),
        (
            "per step",
            ("baseline", "probabilities", 0, 0),
            [2.0, -1.0],
            r"baseline: policy\[0, 0, 1\] is -1; probabilities lie",
        ),
        (
            "per step",
            ("baseline", "probabilities", 0, 0),
            [2.0, 0.0],
            r"baseline: policy\[0, 0, 0\] is 2; probabilities lie",
        ),
        ("packed", ("known", "shape"), [1] * 70, r"known.shape is \[1, 1.*; give a list of at most 4 whole numbers"),
        (
            "pooled",
            ("settings", "delta"),
            float("nan"),
            r"the specification is not JSON \(NaN is not a JSON number\); give one",
        ),
        ("pooled", ("settings", "margin"), True, "margin is True; it must be a number"),
        ("packed", ("known", "zlib"), None, "known.zlib is None; give the compressed bytes as base64 text"),
    ],
)
def test_what_the_messages_say(name, path, value, message):
    document = copy.deepcopy(VALID[name])
    put(document, path, value)
    with pytest.raises(InvalidInput, match=message):
        problem_and_method(json.dumps(document))[0]


any_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=12,
)


def test_anything_anywhere_is_refused_or_means_the_same_when_it_is_read_again():
    """Here the damage may be none, a state written 1.0 for example: what is taken must be a specification for good."""
    counted = Counter()

    @stable(600)
    @given(st.sampled_from(sorted(VALID)), st.data(), st.one_of(any_json, st.integers(0, 3), st.floats(0, 1), st.booleans()))
    def check(name, data, value):
        document = copy.deepcopy(VALID[name])
        put(document, data.draw(st.sampled_from(PLACES[name])), value)
        try:
            taken = problem_and_method(json.dumps(document))[0]
        except InvalidInput as error:
            assert_helpful(error, "")
            counted["refused"] += 1
        else:
            again = taken.to_text()
            assert problem_and_method(again)[0].to_text() == again
            counted["taken"] += 1

    check()
    assert counted["refused"] > 300, counted
    assert counted["taken"] > 10, counted


@st.composite
def no_documents(draw):
    """Texts, and other things, that hold no JSON object that could be a specification."""
    text = json.dumps(VALID[draw(st.sampled_from(["pooled", "per step"]))])
    kind = draw(st.sampled_from(["prefix", "text", "json", "bytes", "deep", "repeated", "token", "around", "object"]))
    if kind == "prefix":
        return text[: draw(st.integers(0, len(text) - 1))]
    if kind == "text":
        return draw(st.text(max_size=30))
    if kind == "json":
        return json.dumps(draw(any_json))
    if kind == "bytes":
        encoded, place = text.encode(), draw(st.integers(0, len(text)))
        return encoded[:place] + draw(st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88"])) + encoded[place:]
    if kind == "deep":
        depth = draw(st.integers(20, 3_000))
        nest = draw(st.sampled_from(["[" * depth + "]" * depth, '{"a":' * depth + "0" + "}" * depth]))
        key = draw(st.sampled_from(["horizon", "simulator", "start", "constraints", "baseline", "settings"]))
        return json.dumps({**pooled(), key: "HERE"}).replace('"HERE"', nest)
    if kind == "repeated":
        return f'{text[:-1]}, "{draw(st.sampled_from(list(pooled())))}": 1}}'
    if kind == "token":
        tokens = ["NaN", "Infinity", "-Infinity", "1e999", "-1e400", "nan", "0x1", "9" * 5000]
        return text.replace("0.5", draw(st.sampled_from(tokens)))
    if kind == "around":
        around = [("\ufeff", ""), ("", ","), ("", text), ("", "\x00"), ("/**/", ""), ("'", "'")]
        return draw(st.sampled_from([before + text + after for before, after in around]))
    return draw(st.sampled_from([None, 5, {}, [], object(), pooled(), b"", b"\x00", bytearray(b"{}"), 0.5, True]))


def test_texts_that_are_no_documents_are_refused():
    refused = Counter()

    @stable(600)
    @given(no_documents())
    def check(text):
        with pytest.raises(InvalidInput) as caught:
            problem_and_method(text)[0]
        assert_helpful(caught.value, "specification|horizon|simulator|start|constraints|baseline|settings|radius|margin")
        refused[type(text).__name__] += 1

    check()
    assert refused.total() >= TEXTS, refused


JUNK = [None, "x", "0.5", [], {}, print, float("nan"), -1, (1.0, 2.0), [[1.0], [1.0, 2.0]], 10**400, 1j]


def test_create_refuses_and_leaves_no_file_behind(tmp_path):
    """Objects put together in Python: nothing may be left in the folder that would be in the way of a correct one."""
    path, good = tmp_path / "campaign.db", problem_and_method(json.dumps(pooled()))[0]
    chosen = {name: getattr(good.settings, name) for name in Settings.__dataclass_fields__}
    refused = Counter()
    changes = st.one_of(
        st.tuples(st.sampled_from(["margin", "tolerance", "delta", "bonus_scale"]), NOT_POSITIVE),
        st.tuples(st.sampled_from(["margin", "tolerance", "delta"]), st.floats(3.001, 1e300)),
        st.tuples(st.sampled_from(["calibrated_gap", "mismatch_gap"]), st.one_of(BELOW_0, ABOVE_1)),
        st.tuples(st.just("seed"), NO_SEED),
        st.sampled_from([("radius", 0.4), ("radius", None)]),
        st.tuples(st.sampled_from(["calibrated_gap", "mismatch_gap", "tolerance", "delta", "seed"]), st.sampled_from(JUNK)),
    )
    short = s2r.MarkovPolicy.uniform(horizon=H - 1, num_states=S, num_actions=A)
    parts = st.one_of(
        st.tuples(st.just("simulator"), st.sampled_from([*JUNK, good.simulator.kernel])),
        st.tuples(st.just("baseline"), st.sampled_from([*JUNK, short, s2r.Mixture.of([1.0], [good.baseline])])),
        st.tuples(st.just("settings"), st.sampled_from([*JUNK, chosen])),
        st.tuples(st.just("known"), st.sampled_from([*JUNK[1:], np.zeros((S, A)), np.zeros((A, S), dtype=bool)])),
        changes.map(lambda change: ("settings", Settings(**{**chosen, change[0]: change[1]}))),
    )

    @stable(400)
    @given(parts)
    def check(part):
        name, value = part
        fields = {"simulator": good.simulator, "baseline": good.baseline, "settings": good.settings, name: value}
        with pytest.raises(InvalidInput) as caught:
            Campaign.create(path, Problem(**fields))
        assert_helpful(caught.value, "|".join(["settings", *chosen]) if name == "settings" else name)
        assert list(tmp_path.iterdir()) == []
        refused[name] += 1

    check()
    for wrong in (None, json.dumps(pooled()), pooled(), good.simulator):
        with pytest.raises(InvalidInput, match="give a Problem"):
            Campaign.create(path, wrong)
    assert list(tmp_path.iterdir()) == []
    assert refused.total() >= OBJECTS, refused
    with Campaign.create(path, good) as campaign:
        assert campaign.ask(worker="robot")
        assert campaign.verify().holds


def test_labels_that_a_database_cannot_keep_are_refused_before_there_is_one(tmp_path):
    """Half a character cannot be encoded, and PostgreSQL keeps no character zero."""
    baseline = s2r.MarkovPolicy.deterministic([0, 0, 0], num_actions=A, horizon=H)
    chosen = Settings(margin=1.0, calibrated_gap=0.1, mismatch_gap=0.6, tolerance=0.3, radius=radii.Scaled(0.4))
    for label in ("\ud800", "a\x00b", "line\nline"):
        model = s2r.CMDP.of(s2r.Kernel.from_dense(TRANSITION), H, 0, s2r.AtLeast(SAFE, 1.0, name=label))
        with pytest.raises(InvalidInput, match=r"constraints\[0\]\.name is .*printable"):
            Campaign.create(tmp_path / "campaign.db", Problem(model, baseline, chosen))
    assert list(tmp_path.iterdir()) == []


SMALL_MEMORY = """
import json, resource, sys
from safe2real.methods.named import problem_and_method
from safe2real.errors import InvalidInput
documents = json.load(sys.stdin)
problem_and_method(json.dumps(documents.pop("valid")))[0]  # everything that compiles has compiled
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20),) * 2)
for name, document in documents.items():
    try:
        problem_and_method(json.dumps(document))[0]
    except InvalidInput as error:
        assert len(str(error)) < 600, name
    else:
        raise AssertionError(name + " was taken")
print(len(documents))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a process reads its own size from /proc")
def test_sizes_that_only_a_slip_explains_are_refused_without_the_memory_for_them():
    """With 300 MiB to spare, where the arrays that these documents speak of take from 1 GiB to more than there is."""
    documents = {"valid": pooled()}
    for size in (10**8, 10**9, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63, 2**64, 2**70, 10**400):
        for key in ("num_states", "num_actions"):
            documents[f"{key} {size}"] = pooled() | {"simulator": pooled()["simulator"] | {key: size}}
        steps = {"steps": [0] * 15, "num_steps": size}
        documents[f"num_steps {size}"] = pooled() | {"simulator": pooled()["simulator"] | steps}
        documents[f"horizon {size}"] = pooled() | {"horizon": size}
        documents[f"policy {size}"] = pooled() | {"baseline": pooled()["baseline"] | {"num_actions": size}}
    long = pooled() | {"simulator": {"transition": [[[1.0]]]}, "constraints": [], "horizon": 2**28}
    actions = {"kind": "deterministic", "num_actions": 1, "actions": [0] * 1000}
    table = {"kind": "stochastic", "probabilities": [[1.0]] * 1000}
    documents["actions that would be written out for every step"] = long | {"baseline": actions}
    documents["probabilities that would be written out for every step"] = long | {"baseline": table}
    bomb = base64.b64encode(zlib.compress(bytes(10**9), 1)).decode()
    documents["a bomb"] = pooled() | {"known": {"dtype": "|b1", "shape": [S, A], "zlib": bomb}}
    documents["a claim"] = pooled() | {"known": pack(np.zeros((S, A), dtype=bool)) | {"shape": [2**32]}}
    done = subprocess.run(
        [sys.executable, "-c", SMALL_MEMORY], input=json.dumps(documents), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(documents) - 1

"""Thousands of damaged specifications: each is refused by name.

Every damage is known to make its document invalid; what may turn out valid after all is read again instead and not counted.
"""

import base64
import copy
import json
import re
import subprocess
import sys
import zlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safe2real.errors import InvalidInput
from safe2real.methods.document import problem_and_method
from safe2real.problem.document import kernel_from_json
from tests.preflight.specs import ROWS
from tests.problem.documents import (
    ABOVE_1,
    BELOW_0,
    HUGE,
    NO_COUNT,
    NO_SEED,
    NOT_FINITE,
    NOT_POSITIVE,
    VALID,
    A,
    H,
    S,
    outside,
    pack,
    pooled,
)
from tests.refusals import DOCUMENTS, TEXTS, assert_helpful, shares, stable

pytestmark = pytest.mark.filterwarnings("error")  # a warning of numpy would be a check that came too late


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
    nothing = [] if path == ("settings", "seed") else [None]  # which draws one
    return [*nothing, "x", "0.5", "1", [], {}, True, False, [[1]], float("nan"), float("inf"), -float("inf")]


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


@shares
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


@pytest.mark.parametrize(
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
            "simulator: transition.* sums to 0; .*15 transitions are given for 2,000,000,000",
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


@shares
def test_anything_anywhere_is_refused_or_means_the_same_when_it_is_read_again(share):
    """Here the damage may be none, a state written 1.0 for example: what is taken must be a specification for good."""
    counted = Counter()

    @stable(int(600 * share))
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
    assert counted["refused"] > 300 * share, counted
    assert counted["taken"] > 10 * share, counted


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


@shares
def test_texts_that_are_no_documents_are_refused(share):
    refused = Counter()

    @stable(int(600 * share))
    @given(no_documents())
    def check(text):
        with pytest.raises(InvalidInput) as caught:
            problem_and_method(text)[0]
        assert_helpful(caught.value, "specification|horizon|simulator|start|constraints|baseline|settings|radius|margin")
        refused[type(text).__name__] += 1

    check()
    assert refused.total() >= share * TEXTS, refused


SMALL_MEMORY = """
import json, resource, sys
from safe2real.methods.document import problem_and_method
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
    bomb = base64.b64encode(zlib.compress(bytes(400 << 20), 1)).decode()
    documents["a bomb"] = pooled() | {"known": {"dtype": "|b1", "shape": [S, A], "zlib": bomb}}
    documents["a claim"] = pooled() | {"known": pack(np.zeros((S, A), dtype=bool)) | {"shape": [2**32]}}
    done = subprocess.run(
        [sys.executable, "-c", SMALL_MEMORY], input=json.dumps(documents), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(documents) - 1


def test_a_dense_array_is_weighed_as_what_is_kept_of_it(monkeypatch):
    monkeypatch.setenv("SAFE2REAL_MAX_BYTES", "200")
    kernel_from_json({"transition": ROWS}, "simulator")  # 4 transitions of 4 columns: 128 bytes
    with pytest.raises(InvalidInput, match=r"simulator\.transition, kept as its 8 transitions, would take 256 bytes"):
        kernel_from_json({"transition": np.full((2, 2, 2), 0.5)}, "simulator")

"""What a record names is one of ours, one that the caller gave, or an entry point of an installed package: nothing else."""

import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest

from safe2real import radii
from safe2real.errors import InvalidInput
from safe2real.model import serialization as naming
from safe2real.model.serialization import GROUP, named_from_json, named_to_json
from safe2real.problem.problem import Problem
from safe2real.radii import Radius
from safe2real.testing.systems import random_case


@dataclass(frozen=True)
class Flat(Radius):
    """1 whatever happens, which covers."""

    height: float = 1.0
    width: float = 2.0
    name: ClassVar[str] = "test-flat"

    def after(self, visits, seen, row):
        return self.height + 0.0 * visits


class NoRadius:
    name = "test-flat"


def offered(monkeypatch, value, name="test-flat"):
    """As if an installed package offered `value` under the entry point `name`."""
    asked = []

    def entry_points(**of):
        asked.append(of)
        found = EntryPoint(name=name, value=value, group=GROUP)
        return [found] if of == {"group": GROUP, "name": name} else []

    monkeypatch.setattr(naming, "entry_points", entry_points)
    return asked


def read(value, extensions=()):
    return named_from_json(value, "settings.radius", Radius, radii.ALL, extensions)


def test_a_name_and_its_parameters():
    assert named_to_json(Flat(0.5)) == {"kind": "test-flat", "height": 0.5, "width": 2.0}
    assert named_to_json(radii.KL()) == {"kind": "kl"}
    assert read({"kind": "scaled", "scale": 0.25}) == radii.Scaled(0.25)
    assert read({"kind": "test-flat", "height": 0.5, "width": 3.0}, (Flat,)) == Flat(0.5, 3.0)
    given = Flat()
    assert read(given) is given


def test_what_nobody_knows_is_nothing(monkeypatch):
    asked = offered(monkeypatch, "nowhere:Nothing", name="another")
    for value in ({"kind": "test-flat", "height": 0.5, "width": 3.0}, {"kind": 7}, {"kind": None}, {}, "kl", None, []):
        assert read(value) is None, value
    assert asked == [{"group": "safe2real", "name": "test-flat"}]  # what is no name is not even looked for


def test_an_entry_point_of_that_name_is_loaded(monkeypatch):
    offered(monkeypatch, f"{__name__}:Flat")
    assert read({"kind": "test-flat", "height": 0.5, "width": 3.0}) == Flat(0.5, 3.0)


def test_an_entry_point_that_leads_elsewhere_is_refused(monkeypatch):
    for value, name in ((f"{__name__}:NoRadius", "test-flat"), (f"{__name__}:read", "test-flat"), (f"{__name__}:Flat", "x")):
        offered(monkeypatch, value, name)
        with pytest.raises(InvalidInput, match=f"the entry point '{name}' leads to .*, which is no Radius of that name"):
            read({"kind": name})


def test_our_names_and_those_given_come_before_entry_points(monkeypatch):
    for name in ("kl", "test-flat"):
        asked = offered(monkeypatch, "nowhere:Nothing", name)
        assert read({"kind": "kl"}) == radii.KL()
        assert read({"kind": "test-flat", "height": 1.0, "width": 2.0}, (NoRadius, Flat)) == Flat()
        assert asked == []


def test_a_record_can_import_nothing_else(monkeypatch, tmp_path):
    """Not by a path, and not by the name of a module that is there to be imported."""
    (tmp_path / "evil_radius.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = random_case(0).problem.to_text()
    assert '"kind":"adaptive"' in text
    for kind in ("evil_radius", "evil_radius:Radius", "evil_radius.Radius", f"{__name__}:Flat", "test-flat"):
        with pytest.raises(InvalidInput, match=r"settings\.radius is .*; give .*one of"):
            Problem.from_text(text.replace('"kind":"adaptive"', f'"kind":"{kind}"'))
    assert "evil_radius" not in sys.modules


def test_every_parameter_without_a_default_must_be_there_and_no_other():
    with pytest.raises(InvalidInput, match=r"settings\.radius lacks 'scale'"):
        read({"kind": "scaled"})
    assert read({"kind": "test-flat", "width": 3.0}, (Flat,)) == Flat(width=3.0)
    assert Flat(width=3.0) != Flat()
    with pytest.raises(InvalidInput, match=r"unknown key 'heigth' \(did you mean 'height'\?\)"):
        read({"kind": "test-flat", "height": 1.0, "width": 1.0, "heigth": 1.0}, (Flat,))
    with pytest.raises(InvalidInput, match="scale is -1; it must be positive"):
        read({"kind": "scaled", "scale": -1.0})

"""The public names: there, documented, and not imported before they are used."""

import dataclasses
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import safe2real
from docs.site.pages import public_names

PACKAGES = sorted(safe2real._PACKAGES)
ARRAY = re.compile("Floats|Indices|NDArray|ArrayLike")
INHERITED = {"WindyGridEnv.reset", "WindyGridEnv.step"}  # from gymnasium.Env, as its class's docstring specifies
HEAVY = ("numba", "numpy", "scipy", "gymnasium", "sqlalchemy", "matplotlib", "typer", "jinja2")


def test_importing_the_package_imports_nothing_heavy():
    script = f"import sys, safe2real; print(sorted(set({HEAVY}) & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_about_twenty_names_are_there():
    assert 20 <= len(safe2real.__all__) <= 35
    assert len(set(safe2real.__all__)) == len(safe2real.__all__)
    assert set(safe2real.__all__) <= set(dir(safe2real))
    for name in safe2real.__all__:
        assert getattr(safe2real, name) is not None, name
    with pytest.raises(AttributeError, match="has no attribute 'learner'; see dir"):
        safe2real.learner  # noqa: B018
    from safe2real.exploration.learner import Learner

    assert safe2real.Learner is Learner


def test_every_package_is_reached_by_its_name():
    for name in safe2real._PACKAGES:
        assert getattr(safe2real, name).__name__ == f"safe2real.{name}"


def documented():
    for name in safe2real.__all__:
        yield f"safe2real.{name}", getattr(safe2real, name)
    for package in safe2real._PACKAGES:
        module = getattr(safe2real, package)
        yield module.__name__, module
        for name in getattr(module, "__all__", ()):
            yield f"{module.__name__}.{name}", getattr(module, name)


def test_every_public_name_has_a_docstring():
    without = []
    for name, thing in documented():
        speaks = inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isfunction(thing)
        # dataclasses that say nothing are given their signature
        if speaks and (not thing.__doc__ or thing.__doc__.startswith(f"{thing.__name__.split('.')[-1]}(")):
            without.append(name)
    assert without == []


def test_what_a_public_class_offers_has_a_docstring():
    without = []
    for name, thing in documented():
        if not inspect.isclass(thing) or name.startswith("safe2real.testing."):  # a contract's tests say it by their names
            continue
        for member, value in vars(thing).items():
            speaks = isinstance(value, property) or inspect.isfunction(getattr(value, "__func__", value))
            if speaks and not member.startswith("_") and not inspect.getdoc(getattr(thing, member)):  # or its base's
                without.append(f"{name}.{member}")
    assert without == []


def test_every_public_constant_has_a_docstring():
    """A string below it, which the reference shows: a constant has none that Python keeps."""
    without = []
    for name, thing in documented():
        package, _, constant = name.rpartition(".")
        if inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isfunction(thing) or constant == "__version__":
            continue
        said = re.compile(rf"^{constant}(?::[^=\n]+)? = (?:.+|\(\n(?:    .*\n)+\))\n\"\"\"\w", re.MULTILINE)
        sources = Path(import_module(package).__file__).parent.rglob("*.py")
        if not any(said.search(source.read_text()) for source in sources):
            without.append(name)
    assert without == []


def public_functions(package):
    """Functions of a package, and methods of its classes, as the reference shows them."""
    for name in public_names()[package]:
        home, _, short = name.rpartition(".")
        thing = getattr(import_module(home), short)
        if inspect.isfunction(thing):
            yield name, thing
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                function = getattr(value, "__func__", value)
                if inspect.isfunction(function) and not member.startswith(("_", "test_")):
                    yield f"{name}.{member}", function


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_have_sections_for_arguments_and_results(package):
    without = []
    for name, function in public_functions(package):
        said, signature = inspect.getdoc(function) or "", inspect.signature(function)
        if set(signature.parameters) - {"self", "cls"} and "Args:" not in said:
            without.append(f"{name}: Args")
        if signature.return_annotation not in (None, "None") and not re.search("Returns:|Yields:", said):
            without.append(f"{name}: Returns")
    assert without == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_parameter_is_described(package):
    without = []
    for name, function in public_functions(package):
        said = inspect.getdoc(function) or ""
        described = said.partition("Args:")[2]
        for parameter in inspect.signature(function).parameters.keys() - {"self", "cls"}:
            if not re.search(rf"^    \*{{0,2}}{parameter}\b[^\n]*:", described, re.MULTILINE):
                without.append(f"{name}: {parameter}")
    assert without == []


def sections(function):
    """The parts of a docstring by their headings, and of its Args by their names."""
    parts = re.split(r"^(Args|Returns|Yields|Raises|Example):$", inspect.getdoc(function) or "", flags=re.MULTILINE)
    named = dict(zip(parts[1::2], parts[2::2], strict=True))
    arguments = re.split(r"^    \*{0,2}(\w+)\b[^\n:]*:", named.get("Args", ""), flags=re.MULTILINE)
    return named, dict(zip(arguments[1::2], arguments[2::2], strict=True))


@pytest.mark.parametrize("package", PACKAGES)
def test_arrays_have_shapes(package):
    without = []
    for name, function in public_functions(package):
        signature, (named, arguments) = inspect.signature(function), sections(function)
        for parameter, said in signature.parameters.items():
            if ARRAY.search(str(said.annotation)) and "[" not in arguments.get(parameter, ""):
                without.append(f"{name}: {parameter}")
        if ARRAY.search(str(signature.return_annotation)) and "[" not in named.get("Returns", named.get("Yields", "")):
            without.append(f"{name}: Returns")
    assert without == []


@pytest.mark.parametrize("package", sorted(set(PACKAGES) - {"testing"}))  # a contract raises what makes a test fail
def test_errors_that_a_function_raises_itself_are_named(package):
    raises = re.compile(r"^\s+raise \w+\(", re.MULTILINE)
    found = [(name, function) for name, function in public_functions(package) if not name.endswith(tuple(INHERITED))]
    assert [name for name, one in found if raises.search(inspect.getsource(one)) and "Raises" not in sections(one)[0]] == []


def test_every_setting_is_explained():
    source = inspect.getsource(safe2real.Settings)
    fields = [field.name for field in dataclasses.fields(safe2real.Settings)]
    assert [name for name in fields if not re.search(rf'^    {name}: .+\n    """\w', source, re.MULTILINE)] == []

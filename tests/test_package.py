"""The package as a whole: what it offers, how lazily, and what its numeric core may not import."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import partwise
from partwise._registry import BUILT_IN, PUBLIC, find_estimator, model_names, resolve
from partwise.errors import InvalidInputError, PartwiseError

ROOT = Path(__file__).parents[1]
SOURCE = Path(partwise.__file__).parent
HEAVY = ["numba", "scipy", "sklearn", "pandas", "anndata", "matplotlib", "polars", "pyarrow", "typer", "rich"]
NOT_IN_THE_CORE = ["typer", "click", "rich", "matplotlib", "pandas", "polars", "pyarrow", "anndata", "dask", "arviz"]
CORE = ["partwise.kernels", "partwise.core", "partwise.engines", "partwise.priors", "partwise.io", "partwise.poisson"]


def run_python(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded_after(statement: str, packages: list[str]) -> list[str]:
    """Which of the packages a new interpreter has loaded after a statement."""
    return run_python(f"{statement}\nimport sys\nprint(*[p for p in {packages} if p in sys.modules])").split()


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import partwise", HEAVY) == []


def test_import_loads_something_heavy_when_asked() -> None:
    # the check above would see a heavy import if there were one
    assert "scipy" in loaded_after("import partwise; partwise.Table", HEAVY)


def test_a_model_is_imported_without_a_compiler() -> None:
    assert loaded_after("from partwise import PoissonNMF, AllocationNMF, BinaryNMF", ["numba", "llvmlite"]) == []


def test_import_takes_less_than_half_a_second() -> None:
    code = "import time; start = time.perf_counter(); import partwise; print(time.perf_counter() - start)"
    assert min(float(run_python(code)) for _ in range(3)) < 0.5


def run_without(packages: list[str], code: str) -> str:
    """What a new interpreter prints in which some packages cannot be found, as if they were not installed."""
    absent = (
        "import sys\nclass Absent:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {packages}:\n            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    return run_python(absent + code)


def test_numeric_core_needs_no_tables_plots_or_terminals() -> None:
    # not by looking at sys.modules: scikit-learn imports pandas where it is there
    modules = [name for name in walk() if any(name == part or name.startswith(part + ".") for part in CORE)]
    assert len(modules) > len(CORE)
    run_without(NOT_IN_THE_CORE, "import " + ", ".join(modules))


def test_numeric_core_fits_without_them() -> None:
    code = (
        "from partwise import PoissonNMF; print(PoissonNMF(2, max_iter=3).fit([[3, 1], [0, 2], [1, 1]]).n_components_)"
    )
    assert run_without(NOT_IN_THE_CORE, code) == "2"


def test_blocked_packages_are_blocked() -> None:
    assert run_without(["rich"], "try:\n    import rich\nexcept ImportError:\n    print('none')") == "none"


def walk() -> list[str]:
    """Every module of the package."""
    return [module.name for module in pkgutil.walk_packages(partwise.__path__, "partwise.")]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(partwise, name)
    assert value is resolve(PUBLIC[name])
    assert value.__doc__
    assert value.__doc__.strip()


def test_package_lists_the_table() -> None:
    assert dir(partwise) == sorted(["__version__", *PUBLIC])
    assert sorted(partwise.__all__) == dir(partwise)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            seen[alias.name] = f"{node.module}.{alias.name}"
    assert seen == {name: address.replace(":", ".") for name, address in PUBLIC.items()}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'PoissonMNF'"):
        _ = partwise.PoissonMNF


@pytest.mark.parametrize("name", ["load", "Table", "os:system", "partwise.io:read", "", "PoissonNMF "])
def test_only_estimators_are_found_by_name(name: str) -> None:
    with pytest.raises(InvalidInputError, match="no model called"):
        find_estimator(name)


@pytest.mark.parametrize("name", [model.class_name for model in BUILT_IN])
def test_estimators_are_found_by_name(name: str) -> None:
    assert find_estimator(name) is getattr(partwise, name)


@pytest.mark.parametrize(("name", "class_name"), model_names().items())
def test_estimators_are_found_by_their_names_in_the_command(name: str, class_name: str) -> None:
    assert find_estimator(name).__name__ == class_name


def test_errors_share_one_base() -> None:
    raised = [value for value in vars(partwise.errors).values() if isinstance(value, type)]
    errors = [value for value in raised if not issubclass(value, Warning)]
    assert PartwiseError in errors
    assert all(issubclass(error, PartwiseError) for error in errors)
    assert all(value.__doc__ for value in raised)


def test_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {partwise.__version__}\n" in citation
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version_file = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert version_file.read_text(encoding="utf-8").count(partwise.__version__) == 1
    assert f"\n## {partwise.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_package_is_typed() -> None:
    assert (SOURCE / "py.typed").is_file()

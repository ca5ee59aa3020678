"""`partwise fit` and `partwise transform`: the same numbers as Python, whole files, one JSON object."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from partwise import PoissonNMF, load, read
from partwise._registry import model_names
from partwise.io import write_matrix, write_table


def table_of(path: str) -> tuple[list[str], list[str], np.ndarray]:
    """Columns, rows and values of a table."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file, delimiter="\t" if path.endswith(".tsv") else ",")
    return header[1:], [line[0] for line in lines], np.array([line[1:] for line in lines], dtype=float)


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        ([], {}),
        (["--inference", "multiplicative", "--max-iter", "30", "--tol", "0"],
         {"inference": "multiplicative", "max_iter": 30, "tol": 0.0}),
        (["--init", "nndsvd", "--threads", "2", "--set", "active_threshold=0.3"],
         {"init": "nndsvd", "active_threshold": 0.3}),
    ],
)  # fmt: skip
def test_fit_gives_the_numbers_of_python(words, parameters, partwise, folder, counts) -> None:
    outputs = ["-o", "m.partwise", "--activations", "a.csv", "--parts", "p.tsv"]
    partwise("fit", "counts.npz", "-k", 4, "--seed", 7, *words, *outputs)
    expected = PoissonNMF(4, random_state=7, **parameters).fit(read("counts.npz"))
    fitted = load("m.partwise")
    np.testing.assert_array_equal(fitted.components_, expected.components_)
    assert fitted.get_params() == expected.get_params()
    assert fitted.active_components_.tolist() == expected.active_components_.tolist()
    columns, rows, values = table_of("a.csv")
    assert columns == list(expected.get_feature_names_out())
    assert rows == [str(n) for n in range(60)]
    np.testing.assert_array_equal(values, expected.transform(counts))
    columns, rows, values = table_of("p.tsv")
    assert columns == list(expected.get_feature_names_out())
    np.testing.assert_array_equal(values, expected.components_.T)


def test_fit_says_what_it_read_and_did(partwise, folder, counts) -> None:
    result = partwise("fit", "catalogue.tsv", "--transpose", "-o", "m.partwise", "-k", 3)
    nonzeros = np.count_nonzero(counts)
    assert result.stderr == f"read 60 samples x 30 features, {nonzeros} nonzeros, 0 missing from catalogue.tsv\n"
    lines = result.stdout.splitlines()
    assert lines[0].startswith("PoissonNMF: Converged after ")
    assert lines[1].startswith("3 of 3 parts active, objective ")
    assert [line.split()[:2] for line in lines[2:5]] == [["part", "0"], ["part", "1"], ["part", "2"]]
    assert all(word.startswith("feature") for word in lines[2].split()[2:])
    assert lines[5:] == ["wrote m.partwise"]


def test_fit_json(partwise, folder, counts) -> None:
    content = partwise.json("fit", "counts.npz", "-o", "m.partwise", "-k", 3)
    fitted = load("m.partwise")
    assert content["model"] == "PoissonNMF"
    assert content["data"] == {
        "source": "counts.npz",
        "n_samples": 60,
        "n_features": 30,
        "n_nonzeros": np.count_nonzero(counts),
        "n_missing": 0,
    }
    assert content["parameters"]["n_components"] == content["n_components"] == 3
    assert content["parameters"]["random_state"] == 0
    assert content["objective"] == fitted.trace_.evaluated("objective")[1][-1]
    assert content["facts"] == {"KKT residual": fitted.kkt_residual_}
    assert content["status"] == {"code": "converged", "message": str(fitted.status_)}
    assert content["written"] == ["m.partwise"]
    assert content["warnings"] == []


def test_a_fit_says_once_that_it_did_not_converge(partwise, folder) -> None:
    given = ("fit", "counts.npz", "-o", "m.partwise", "-k", 3, "--max-iter", 2)
    result = partwise(*given)
    told = "PoissonNMF: Did not converge after 2 iterations: raise --max-iter (now 2) or --tol, and fit again."
    assert result.stdout.startswith(told)
    assert (result.stdout + result.stderr).count("Did not converge") == 1
    assert "checkpoint" not in result.stdout  # it is removed after a fit
    content = partwise.json(*given)
    assert content["status"]["code"] == "max_iter"
    assert content["warnings"] == []


def test_chains_may_run_until_they_agree(partwise, folder) -> None:
    given = ("fit", "counts.npz", "-o", "m.partwise", "--model", "lda", "-k", 2, "--set", "burn_in=10")
    result = partwise(*given, "--set", "n_draws=10")
    assert result.stdout.splitlines()[0].endswith("raise burn_in and n_draws with --set, or set --max-iter auto.")
    partwise(*given, "--set", "n_draws=100", "--max-iter", "auto")
    assert load("m.partwise").max_iter == "auto"


def test_warnings_are_in_json(partwise, folder, counts) -> None:
    write_table("logged.csv", np.log1p(10 * counts / (counts.sum(axis=1, keepdims=True) + 1)))
    (warning,) = partwise.json("fit", "logged.csv", "-o", "m.partwise", "-k", 2)["warnings"]
    assert "looks log-normalised" in warning


def test_missing_cells_are_counted_and_left_out(partwise, folder, counts) -> None:
    holed = counts.astype(float)
    holed[0, :5] = np.nan
    write_table("holed.csv", holed)
    content = partwise.json("fit", "holed.csv", "-o", "m.partwise", "-k", 2)
    assert content["data"]["n_missing"] == 5
    assert content["data"]["n_nonzeros"] == np.count_nonzero(np.nan_to_num(holed))
    expected = PoissonNMF(2, random_state=0).fit(holed)
    np.testing.assert_array_equal(load("m.partwise").components_, expected.components_)


def test_warning_is_a_line(partwise, folder, counts) -> None:
    totals = counts.sum(axis=1, keepdims=True) + 1
    write_table("logged.csv", np.log1p(10 * counts / totals))
    result = partwise("fit", "logged.csv", "-o", "m.partwise", "-k", 2)
    assert result.stderr.count("looks log-normalised") == 1
    assert "\nwarning: " in result.stderr


def test_refit_to_given_parts(partwise, folder, counts) -> None:
    words = ["--components-file", "signatures.tsv", "--activations", "a.csv"]
    content = partwise.json("fit", "catalogue.tsv", "--transpose", "-o", "m.partwise", *words)
    assert content["n_components"] == 4
    assert content["n_iter"] == 0
    signatures = read("signatures.tsv")
    columns, rows, values = table_of("a.csv")
    assert columns == signatures.column_labels.tolist() == ["SBS1", "SBS2", "SBS3", "SBS4"]
    assert rows[:2] == ["sample0", "sample1"]
    np.testing.assert_array_equal(values, PoissonNMF.from_components(signatures.matrix.T).transform(counts))
    partwise("transform", "m.partwise", "catalogue.tsv", "--transpose", "-o", "again.csv")
    assert table_of("again.csv")[0] == columns
    assert "\nSBS2  " in partwise("info", "m.partwise").stdout


def test_refit_matches_features_by_name(partwise, folder) -> None:
    signatures = read("signatures.tsv")
    order = np.random.default_rng(0).permutation(30)
    write_table("shuffled.csv", signatures.matrix[order], signatures.row_labels[order], signatures.column_labels)
    for name in ("signatures.tsv", "shuffled.csv"):
        words = ["--components-file", name, "--activations", f"a.{name}.csv"]
        partwise("fit", "catalogue.tsv", "--transpose", "-o", "m.partwise", *words)
    # The model keeps the order of the file, so that sums over features round otherwise.
    np.testing.assert_allclose(table_of("a.signatures.tsv.csv")[2], table_of("a.shuffled.csv.csv")[2], rtol=1e-12)


def test_refit_knows_names_that_our_tables_quote(partwise, folder) -> None:
    names = ["@ann", "=bob", "'cat"]
    write_table("data.csv", np.array([[1, 2, 3], [4, 0, 6]]), ["x", "y"], names, neutralise=False)
    partwise("fit", "data.csv", "-k", 1, "-o", "m.partwise", "--parts", "parts.csv")
    assert Path("parts.csv").read_text().splitlines()[1].startswith("'@ann,")
    partwise("fit", "data.csv", "-o", "again.partwise", "--components-file", "parts.csv")
    np.testing.assert_array_equal(load("again.partwise").components_, load("m.partwise").components_)


def test_refit_from_a_model_file(partwise, folder) -> None:
    partwise("fit", "counts.npz", "-o", "m.partwise", "-k", 3)
    partwise("fit", "new_counts.npz", "-o", "again.partwise", "--components-file", "m.partwise")
    np.testing.assert_array_equal(load("again.partwise").components_, load("m.partwise").components_)


def test_refit_to_parts_whose_features_share_a_name(partwise, folder) -> None:
    Path("genes.csv").write_text("cell,a,b,a\nx,3,0,1\ny,0,2,5\nz,1,1,1\n")
    partwise("fit", "genes.csv", "-o", "m.partwise", "-k", 2, "--parts", "parts.csv")
    expected = load("m.partwise").transform(read("genes.csv"))
    for given in ("m.partwise", "parts.csv"):
        partwise("fit", "genes.csv", "-o", "again.partwise", "--components-file", given, "--activations", "a.csv")
        np.testing.assert_allclose(table_of("a.csv")[2], expected, rtol=1e-6, atol=1e-6)


def test_checkpoint_and_resume(partwise, folder) -> None:
    words = ["counts.npz", "-k", 4, "--tol", 0, "--checkpoint", "fit.checkpoint", "--resume"]
    first = partwise("fit", *words, "-o", "a.partwise", "--max-iter", 10)
    assert "there is no checkpoint fit.checkpoint yet: starting from the beginning" in first.stderr
    content = partwise.json("fit", *words, "-o", "b.partwise", "--max-iter", 25)
    assert content["n_iter"] == 25
    partwise("fit", "counts.npz", "-k", 4, "--tol", 0, "-o", "c.partwise", "--max-iter", 25)
    np.testing.assert_array_equal(load("b.partwise").components_, load("c.partwise").components_)


def test_transform_is_that_of_python(partwise, folder, counts) -> None:
    partwise("fit", "counts.npz", "-o", "m.partwise", "-k", 4)
    words = ["-o", "a.csv", "--errors", "e.csv", "--threads", 2]
    content = partwise.json("transform", "m.partwise", "new_counts.npz", *words)
    assert (content["n_samples"], content["n_components"]) == (20, 4)
    model = load("m.partwise")
    np.testing.assert_array_equal(table_of("a.csv")[2], model.transform(counts[:20]))
    np.testing.assert_array_equal(table_of("e.csv")[2], model.activation_errors(counts[:20]))


def test_transform_to_parquet(partwise, folder) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    partwise("fit", "catalogue.tsv", "--transpose", "-o", "m.partwise", "-k", 4)
    partwise("transform", "m.partwise", "catalogue.tsv", "--transpose", "-o", "a.parquet")
    columns = parquet.read_table("a.parquet").to_pydict()
    assert columns["sample"][:2] == ["sample0", "sample1"]
    expected = load("m.partwise").transform(read("catalogue.tsv", transpose=True))
    np.testing.assert_array_equal(columns["part 2"], expected[:, 2])


def test_transform_to_anndata_keeps_what_is_there(partwise, folder, counts) -> None:
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(counts.astype(np.float32))
    adata.obs["batch"] = np.arange(60) % 3
    adata.layers["counts"] = counts
    adata.write_h5ad("cells.h5ad")
    partwise("fit", "cells.h5ad", "--layer", "counts", "-o", "m.partwise", "-k", 4)
    partwise("transform", "m.partwise", "cells.h5ad", "--layer", "counts", "-o", "cells.h5ad")
    result = anndata.read_h5ad("cells.h5ad")
    assert result.obs["batch"].tolist() == (np.arange(60) % 3).tolist()
    model = load("m.partwise")
    np.testing.assert_array_equal(result.obsm["X_partwise"], model.transform(read("cells.h5ad", layer="counts")))
    np.testing.assert_array_equal(result.varm["partwise"], model.components_.T)
    assert result.uns["partwise"]["model"] == "PoissonNMF"


def test_models_are_named_after_the_estimators() -> None:
    names = {
        "poisson": "PoissonNMF",
        "gamma-poisson": "GammaPoissonNMF",
        "empirical-bayes-poisson": "EmpiricalBayesPoissonNMF",
        "beta-gamma-pfa": "BetaGammaPFA",
        "negative-binomial": "NegativeBinomialNMF",
        "logistic-pca": "LogisticPCA",
    }
    assert {name: model_names()[name] for name in names} == names


def test_help_names_the_models(partwise) -> None:
    text = "".join(partwise("fit", "--help").stdout.split())  # lines break at hyphens
    assert all(name in text for name in model_names())


def test_model_may_be_given_by_class(partwise, folder) -> None:
    partwise("fit", "counts.npz", "-o", "m.partwise", "--model", "PoissonNMF", "-k", 2)
    assert type(load("m.partwise")) is PoissonNMF


def test_unnamed_data_get_numbered_names(partwise, folder) -> None:
    write_matrix("x.npz", read("counts.npz"))
    assert "feature " in partwise("fit", "x.npz", "-o", "m.partwise", "-k", 2).stdout


def test_parameter_that_a_model_lacks(partwise, folder) -> None:
    refused = partwise.misused("fit", "counts.npz", "-o", "m.partwise", "--model", "beta-gamma-pfa", "--max-iter", 3)
    assert refused == "Error: Invalid value for --max-iter: BetaGammaPFA has no parameter max_iter."


def test_pairs_and_presets(partwise, folder) -> None:
    bits = np.random.default_rng(0).integers(2, size=(12, 6))
    np.savetxt("bits.csv", bits, fmt="%d", delimiter=",", header=",".join("abcdef"), comments="")
    words = [
        "fit",
        "bits.csv",
        "-o",
        "m.partwise",
        "--model",
        "binary",
        "-k",
        "2",
        "--set",
        "n_draws=2",
        "--set",
        "burn_in=1",
    ]
    partwise(*words, "--set", "beta_prior=0.1,0.2")
    np.testing.assert_allclose(load("m.partwise").beta_prior_, [[0.1, 0.2]] * 2)
    assert "beta_prior=(0.1, 0.2)" in partwise("info", "m.partwise").stdout
    assert "α of the beta prior" not in partwise("info", "m.partwise").stdout  # it was not learned
    learned = partwise(*words, "--inference", "map").stdout
    assert "α of the beta prior" in learned
    partwise(*words, "--set", "beta_prior=estimate")
    assert len(np.unique(load("m.partwise").beta_prior_)) == 4
    partwise(*words, "--preset", "paper")
    fitted = load("m.partwise")
    assert (fitted.model, tuple(fitted.beta_prior), fitted.n_components, fitted.n_draws) == (
        "beta-dir",
        (1.0, 1.0),
        2,
        2,
    )

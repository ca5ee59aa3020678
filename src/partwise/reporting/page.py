"""The page: one HTML file with style, script and data inside, and a policy that forbids everything else."""

import base64
import contextlib
import hashlib
import html
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from sklearn.pipeline import Pipeline

from partwise._version import __version__
from partwise.core.coerce import as_table
from partwise.core.keys import RandomState
from partwise.io.atomic import FilePath, write_atomically
from partwise.io.table import Table
from partwise.metrics.coherence import ranked
from partwise.reporting.diagnostics import alerts, deviance_explained, diagnostics_section
from partwise.reporting.encoding import embedded_json, visible
from partwise.reporting.known import Known, matched_table
from partwise.reporting.model_view import Fact, ModelView, citations, details, headline
from partwise.reporting.parts import parts_section
from partwise.reporting.samples import samples_section, trends_section

_PIECES = ("dom", "chart", "names", "map", "trends", "parts", "structure", "samples", "diagnostics", "start")
SCRIPTS = tuple(f"{piece}.js" for piece in _PIECES)
"""Pieces of the script, in order."""

_FEATURES_WITHOUT_SCRIPT = 10


def report(
    model: Any,
    X: Any = None,
    *,
    output: FilePath | None = None,
    title: str | None = None,
    groups: Sequence[Any] | None = None,
    times: Sequence[Any] | None = None,
    texts: Sequence[str] | None = None,
    feature_names: Any = None,
    image_shape: tuple[int, int] | None = None,
    reference: Any = None,
    batch: Any = None,
    random_state: RandomState = 0,
) -> str:
    """Write a page about a fitted model: its parts, its samples, how well it fits, and how to cite it.

    The page is one file. It loads nothing, and its content security policy enforces that. Data are summarised, so it
    stays below 10 MB even for 20,000 features and 100,000 samples.

    Parameters
    ----------
    model
        Any fitted estimator, or a fitted pipeline of scikit-learn that ends in one.
    X
        Data to show the model on, preferably the training data. Without them the page shows parts and the trace, and
        samples only if the model keeps their activations. For a pipeline, what it was fitted to.
    output
        File to write, completely or not at all; by default none.
    title
        Title of the page; by default the name of the model.
    groups
        The group of each sample. The structure plot is sorted by it, and parts are shown by group. By default the
        metadata ``group`` of X.
    times
        The time of each sample, numbers or ISO dates: parts are shown over time. By default the metadata ``time`` of X.
    texts
        The text of each sample, shown with the parts that it is typical of. By default the metadata ``text`` of X.
    feature_names
        Feature names for a model without any: one per feature, or the fitted ``CountVectorizer`` that made them.
    image_shape
        Height and width, if features are pixels: parts are then also shown as images.
    reference
        A model or a table of features x parts: the page then names the most similar one for each part.
    batch
        The batch of each sample, or the name of an obs column, if the model was fitted with batches.
    random_state
        Seed for the data drawn in predictive checks: int, Generator or None.

    Returns
    -------
    str
        The page.

    Examples
    --------
    >>> import numpy as np, partwise
    >>> X = np.kron(np.eye(2, dtype=int), np.full((4, 3), 5))
    >>> page = partwise.report(partwise.PoissonNMF(2, random_state=0).fit(X), X, title="Two blocks")
    >>> "<title>Two blocks</title>" in page
    True
    """
    if isinstance(model, Pipeline):
        model, X, feature_names = _unpiped(model, X, feature_names)
    view = ModelView.of(model, X, feature_names, batch)
    known = Known.of(X, None if view.shares is None else len(view.shares), groups=groups, times=times, texts=texts)
    quality = deviance_explained(view)
    content = {
        "parts": parts_section(view, image_shape, known.texts),
        "samples": samples_section(view, quality, known.groups, known.texts),
        "trends": trends_section(view, known),
        "diagnostics": diagnostics_section(view, X, random_state),
    }
    heading = visible(f"{type(model).__name__} report" if title is None else title)
    facts = _facts(alerts(view, X), headline(view, quality), details(view))
    table = matched_table(view, reference)
    facts |= {"references": table, "references_link": '<a href="#references">References</a>' if table else ""}
    page = _filled(view, heading, content, facts)
    if output is not None:
        # Labels with a lone surrogate are escaped by now, so the page is valid UTF-8.
        write_atomically(output, lambda aside: aside.write_text(page, encoding="utf-8", newline="\n"))
    return page


def _unpiped(pipeline: Pipeline, X: Any, names: Any) -> tuple[Any, Any, Any]:
    """The model of a pipeline, X as transformed by the steps before it, and the feature names of these steps."""
    before, model = pipeline[:-1], pipeline[-1]
    if not len(before):
        return model, X, names
    made = None if X is None else before.transform(X)
    is_text = made is not None and not hasattr(X, "columns") and all(isinstance(one, str) for one in X)
    if is_text and not isinstance(made, Table):
        made = as_table(made).with_metadata(text=X)
    if names is None and model.known_features is None:
        with contextlib.suppress(AttributeError, NotImplementedError):  # some step has no output names
            names = before.get_feature_names_out()
    return model, made, names


def _filled(view: ModelView, heading: str, content: dict[str, Any], facts: dict[str, str]) -> str:
    style = _asset("style.css")
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in SCRIPTS) + "})();\n"
    return Template(_asset("page.html")).substitute(
        title=html.escape(heading),
        policy=html.escape(_policy(style, script)),
        style=style,
        script=script,
        data=embedded_json(content),
        citations="\n".join(f"<li>{html.escape(line)}</li>" for line in citations(view.model)),
        plain_parts=_plain_parts(view),
        version=html.escape(__version__),
        **facts,
    )


def _policy(style: str, script: str) -> str:
    """Nothing may run or load except what is in the page, and no text may become markup."""
    return (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _asset(name: str) -> str:
    return (resources.files("partwise.reporting") / "assets" / name).read_text(encoding="utf-8")


def _facts(bad: list[str], first: list[Fact], rest: list[Fact]) -> dict[str, str]:
    warned = [f"<p>{html.escape(visible(sentence, 2000))}</p>" for sentence in bad]
    escaped = [(html.escape(fact.name), html.escape(fact.value)) for fact in first]
    tiles = [f'<div class="tile"><dt>{name}</dt><dd>{value}</dd></div>' for name, value in escaped]
    notes = [f'<p class="note">{html.escape(f"{fact.name}: {fact.note}")}</p>' for fact in first if fact.note]
    others = [(html.escape(fact.name), html.escape(visible(fact.value, 2000))) for fact in rest]
    rows = [f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in others]
    told = f'<div class="alert" role="note" aria-label="Read this first">{"".join(warned)}</div>' if warned else ""
    return {"alerts": told, "tiles": "\n".join(tiles), "notes": "\n".join(notes), "details": "\n".join(rows)}


def _plain_parts(view: ModelView) -> str:
    """The most distinctive features of each part, for readers without scripts."""
    inside, overall = view.model.feature_importance(), view.model.feature_frequencies(view.activations)
    lines = []
    for k in view.order:
        first = ranked(inside[k], overall, _FEATURES_WITHOUT_SCRIPT, "relevance")
        words = ", ".join(html.escape(visible(view.features[f])) for f, _ in first)
        lines.append(f'<tr><th scope="row">{html.escape(visible(view.names[k]))}</th><td>{words}</td></tr>')
    return "\n".join(lines)

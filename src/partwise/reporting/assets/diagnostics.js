// Diagnostics: what the fit reached, whether chains agree, and whether the model can make such data.
function traceFigure(traces) {
  const choice = element("select", { id: "trace-column" }, ...traces.map((trace, at) => element("option", { value: at }, trace.name)));
  const figure = element("figure", {});
  const draw = () => {
    const trace = traces[Number(choice.value)];
    const { image, x, y } = frame(560, 300, trace.x, trace.y, { x: "iteration", y: trace.name, label: `${trace.name} at each iteration` });
    const path = trace.x.map((iteration, at) => `${x(iteration).toFixed(1)},${y(trace.y[at]).toFixed(1)}`).join(" ");
    image.append(drawn("polyline", { class: "line", points: path }));
    const last = trace.y.length - 1;
    figure.replaceChildren(element("figcaption", {}, `${trace.name}: ${short(trace.y[last])} at iteration ${trace.x[last]}`), image);
  };
  choice.addEventListener("change", draw);
  draw();
  const label = element("label", { for: "trace-column" }, "Trace of");
  return element("div", {}, element("div", { class: "controls" }, label, choice), figure);
}

function chainTable(chains) {
  const rows = chains.map((row) => element("tr", {}, element("th", { scope: "row" }, row.name),
    element("td", { class: "number" }, short(row.mean)),
    element("td", { class: row.r_hat > 1.05 ? "number warn" : "number" }, row.r_hat === null ? "–" : row.r_hat.toFixed(3)),
    element("td", { class: "number" }, short(row.ess_bulk)), element("td", { class: "number" }, short(row.ess_tail))));
  const heads = ["quantity", "mean", "R-hat", "ESS, bulk", "ESS, tails"].map((name) => element("th", { scope: "col" }, name));
  const worst = Math.max(...chains.map((row) => row.r_hat ?? 0));
  const words = worst > 1.05 ? "Some R-hat is above 1.05: the chains do not agree yet. Run longer with max_iter='auto' (in the command --max-iter auto)." : "Every R-hat is at most 1.05: the chains agree.";
  return element("div", {}, element("h3", {}, "Chains"), element("table", { class: "facts" },
    element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)),
    element("p", { class: worst > 1.05 ? "note warn" : "note" }, `${words} ESS is the effective sample size: how many independent draws the chains are worth.`));
}

function checkFigure(panel, draws) {
  const inside = panel.coverage === null ? "–" : Math.round(100 * panel.coverage);
  // so many draws tell no smaller probability
  const p = panel.p_value * draws < 1 ? `p < ${(1 / draws).toFixed(2)}` : `p = ${panel.p_value.toFixed(2)}`;
  const caption = element("figcaption", {}, `${panel.title}: ${inside}% inside their bars, ${p}`);
  if (!panel.observed.length) return element("figure", {}, caption);
  const all = [...panel.observed, ...panel.low, ...panel.high];
  const least = Math.min(...all.filter((value) => value > 0));
  const logarithmic = panel.name !== "zeros" && Math.max(...all) > 30 * least;
  const { image, x, y } = frame(340, 320, all, all, { x: "observed", y: "drawn from the model", logarithmic, label: `${panel.title}: observed against drawn from the model` });
  const ends = [Math.min(...all.filter((value) => !logarithmic || value > 0)), Math.max(...all)];
  image.append(drawn("line", { class: "even", x1: x(ends[0]), y1: y(ends[0]), x2: x(ends[1]), y2: y(ends[1]) }));
  panel.observed.forEach((value, at) => {
    const inside = value >= panel.low[at] && value <= panel.high[at];
    const [px, py] = [x(value), y(panel.middle[at])];
    image.append(drawn("line", { class: `range ${inside ? "inside" : "outside"}`, x1: px, x2: px, y1: y(panel.low[at]), y2: y(panel.high[at]) }),
      inside ? drawn("circle", { class: "inside", cx: px, cy: py, r: 1.6 })
        : drawn("path", { class: "outside", d: `M${px - 2.5} ${py - 2.5} l5 5 m-5 0 l5 -5` }));
  });
  return element("figure", {}, caption, image);
}

function startDiagnostics() {
  const { trace, chains, checks } = data.diagnostics;
  const view = byId("diagnostics-view");
  if (trace.length) view.append(traceFigure(trace));
  if (chains.length) view.append(chainTable(chains));
  if (checks) {
    view.append(element("h3", {}, "Predictive checks"),
      element("p", { class: "note" }, `${checks.n_draws} data sets of ${checks.n_rows} samples were drawn from the model. Bars cover nine of ten draws, so about 90% of the values should be inside. Crosses mark values that the model is unlikely to produce. The value p is the share of draws whose mean is at least that of the data; near 0 or 1, the model misses it.`
        + (checks.plug_in ? " Activations were held at their estimates, so bars are too short." : "")
        + checks.noise),
      element("div", { class: "panels" }, ...checks.panels.map((panel) => checkFigure(panel, checks.n_draws))));
  }
  if (!view.childNodes.length) view.append(element("p", { class: "note" }, "The parts were given, not fitted, and there are no data to check them against."));
}

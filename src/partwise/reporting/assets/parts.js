// Parts: a list of them, and the features of the chosen one by relevance (Sievert & Shirley 2014).
const MOST_FOUND = 8;
let chosenPart = 0;

// To three digits: features of one part alone have the same lift, and rounding must not tell them apart.
function relevance(inside, overall, balance) {
  return Math.round(1000 * (balance * Math.log(inside) + (1 - balance) * Math.log(inside / overall)));
}

function rankedFeatures(part, balance) {
  const rows = parts.lists[part].map((feature, at) => {
    const inside = parts.values[part][at];
    const overall = parts.overall[feature];
    const score = parts.signed ? Math.abs(inside) : relevance(inside, overall, balance);
    return { name: parts.features[feature], inside, overall, score };
  });
  rows.sort((one, other) => other.score - one.score || other.inside - one.inside);
  return rows.slice(0, parts.top);
}

function currentBalance() {
  return Number(byId("relevance").value);
}

function showPart() {
  const balance = currentBalance();
  const rows = rankedFeatures(chosenPart, balance);
  const widest = Math.max(...rows.map((row) => Math.max(Math.abs(row.inside), row.overall)), 1e-300);
  byId("relevance-value").textContent = balance.toFixed(2);
  byId("part-title").replaceChildren(isolated(parts.names[chosenPart]), ` – ${percent(parts.weights[chosenPart])} of the data`);
  byId("part-facts").textContent = `Part ${parts.numbers[chosenPart]} of the model.`
    + (parts.coherence && parts.coherence[chosenPart] !== null ? ` NPMI coherence of its ten likeliest features in these data: ${parts.coherence[chosenPart]}.` : "")
    + (parts.active[chosenPart] ? "" : " It is almost empty.")
    + (parts.tentative[chosenPart] ? " Tentative: another chain did not find it." : "");
  byId("part-name").value = parts.names[chosenPart];
  showSimilar();
  showTypical();
  showOnMap();
  if (!byId("trends").hidden) showTrends();
  byId("feature-rows").replaceChildren(...rows.map((row) => {
    const overall = element("div", { class: "overall" });
    const inside = element("div", { class: "inside" });
    overall.style.width = `${(100 * row.overall) / widest}%`;
    inside.style.width = `${(100 * Math.abs(row.inside)) / widest}%`;
    return element("tr", {}, element("td", { title: row.name }, isolated(row.name)),
      element("td", {}, element("div", { class: "track", "aria-hidden": "true" }, overall, inside)),
      element("td", { class: "number" }, (row.inside < 0 ? "−" : "") + percent(Math.abs(row.inside))),
      element("td", { class: "number" }, percent(row.overall)));
  }));
  for (const button of document.querySelectorAll("[data-part]")) {
    button.setAttribute("aria-current", String(Number(button.dataset.part) === chosenPart));
  }
}

function showSimilar() {
  const near = parts.nearest[chosenPart];
  byId("similar-box").hidden = !near.length;
  byId("similar").replaceChildren(...near.map(([part, share]) => {
    const button = element("button", { type: "button" }, isolated(parts.names[part]), ` ${percent(share)}`);
    button.addEventListener("click", () => choosePart(part));
    return button;
  }));
}

function showTypical() {
  const typical = parts.typical ? parts.typical[chosenPart] : [];
  byId("typical-view").hidden = !typical.length;
  byId("typical").replaceChildren(...typical.map((one) => element("li", {},
    element("strong", {}, isolated(one.label)), ` – ${percent(one.share)}`,
    ...(one.text ? [element("p", { dir: "auto" }, one.text)] : []))));
}

function choosePart(part) {
  chosenPart = part;
  showPart();
}

function partButton(part) {
  const words = rankedFeatures(part, parts.balance).slice(0, 5).flatMap((row, at) => [at ? ", " : "", isolated(row.name)]);
  const fill = element("div");
  fill.style.width = `${(100 * parts.weights[part]) / Math.max(...parts.weights, 1e-300)}%`;
  const button = element("button", { type: "button", "data-part": part },
    element("span", parts.active[part] ? {} : { class: "idle" }, isolated(parts.names[part])),
    element("span", { class: "number" }, percent(parts.weights[part])),
    element("span", { class: "words" }, ...(parts.tentative[part] ? [element("em", {}, "tentative"), " · "] : []), ...words), element("div", { class: "meter", "aria-hidden": "true" }, fill));
  button.addEventListener("click", () => choosePart(part));
  return button;
}

function moveInList(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...byId("part-list").querySelectorAll("button")];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  if (next) {
    event.preventDefault();
    next.focus();
    next.click();
  }
}

// Which parts list a feature that is looked for.
function findFeatures() {
  const wanted = byId("feature-search").value.trim().toLowerCase();
  const found = [];
  for (let at = 0; wanted && at < parts.features.length && found.length < MOST_FOUND; at += 1) {
    if (parts.features[at].toLowerCase().includes(wanted)) found.push(at);
  }
  byId("features-found").replaceChildren(...found.map((feature) => {
    const holders = parts.lists.map((list, part) => [part, parts.values[part][list.indexOf(feature)]])
      .filter(([, value]) => value !== undefined);
    holders.sort(([, one], [, other]) => Math.abs(other) - Math.abs(one));
    return element("li", {}, isolated(parts.features[feature]), ...holders.slice(0, MOST_FOUND).map(([part, value]) => {
      const button = element("button", { type: "button" }, isolated(parts.names[part]), ` ${percent(Math.abs(value))}`);
      button.addEventListener("click", () => choosePart(part));
      return button;
    }));
  }));
}

function startParts() {
  byId("parts-view").hidden = false;
  byId("feature-finder").hidden = false;
  byId("feature-search").addEventListener("input", findFeatures);
  byId("relevance-box").hidden = parts.signed;
  byId("relevance").value = parts.balance;
  const list = () => byId("part-list").replaceChildren(...parts.names.map((name, part) => element("li", {}, partButton(part))));
  list();
  whenRenamed(list);
  startNames();
  startMap();
  startTrends();
  byId("part-list").addEventListener("keydown", moveInList);
  byId("relevance").addEventListener("input", showPart);
  byId("bar-legend").append(element("span", {}, element("span", { class: "key inside" }), parts.inside_words),
    element("span", {}, element("span", { class: "key overall" }), parts.overall_words));
  if (parts.total > parts.names.length) {
    byId("part-list-heading").textContent = `The ${parts.names.length} largest of ${parts.total}`;
  }
  byId("download-features").addEventListener("click", () => {
    const rows = parts.names.flatMap((name, part) =>
      rankedFeatures(part, currentBalance()).map((row) => [name, row.name, row.inside, row.overall]));
    download("features.csv", [["part", "feature", "in the part", "overall"], ...rows]);
  });
  if (parts.images) {
    byId("gallery").hidden = false;
    byId("gallery").append(...parts.images.map((image, part) => {
      const picture = element("img", { src: image, alt: `Picture of ${parts.names[part]}` });
      const button = element("button", { type: "button", "data-part": part }, picture, isolated(parts.names[part]));
      button.addEventListener("click", () => choosePart(part));
      return button;
    }));
  }
  showPart();
  whenRenamed(showPart);
}

// Samples: searched, filtered and sorted by position, drawn a page at a time.
const PAGE = 25;

function startSamples() {
  const samples = data.samples;
  if (!samples) {
    byId("no-samples").hidden = false;
    return;
  }
  byId("samples-view").hidden = false;
  const first = (n) => samples.parts[n * samples.per_sample];
  const columns = [
    { title: "sample", value: (n) => ranks()[n], shown: label, text: (n) => samples.labels[n] },
    samples.groups && { title: "group", value: (n) => samples.group_of[n], shown: (n) => isolated(samples.groups[samples.group_of[n]]), text: (n) => samples.groups[samples.group_of[n]] },
    samples.totals && { title: "total", number: true, value: (n) => samples.totals[n], shown: (n) => short(samples.totals[n]) },
    samples.explained && { title: "explained", number: true, value: (n) => samples.explained[n], shown: (n) => `${(samples.explained[n] / 10).toFixed(1)}%`, text: (n) => samples.explained[n] / 1000 },
    { title: "largest parts", value: (n) => first(n) - samples.shares[n * samples.per_sample] / 1001, shown: mix, text: mixText },
  ].filter(Boolean);
  let lowered = null;
  let ranked = null;
  let found = samples.labels.map((label, n) => n);
  let sorting = { column: null, down: false };
  let page = 0;

  // Places of the labels in the alphabet, found once: comparing texts again and again would be slow.
  function ranks() {
    if (!ranked) {
      const order = samples.labels.map((label, n) => n);
      const { compare } = new Intl.Collator(undefined, { numeric: true });
      order.sort((one, other) => compare(samples.labels[one], samples.labels[other]) || one - other);
      ranked = new Array(order.length);
      order.forEach((n, at) => { ranked[n] = at; });
    }
    return ranked;
  }

  function pairs(n) {
    const from = n * samples.per_sample;
    return Array.from({ length: samples.per_sample }, (_, at) => [samples.parts[from + at], samples.shares[from + at]])
      .filter(([, share]) => share > 0);
  }

  function mix(n) {
    return element("span", { class: "mix" }, ...pairs(n).map(([part, share]) =>
      element("span", {}, swatch(part), isolated(parts.names[part]),
        element("span", { class: "share" }, `${(share / 10).toFixed(1)}%`))));
  }

  function label(n) {
    const name = isolated(samples.labels[n]);
    return samples.texts ? element("div", {}, name, element("div", { class: "snippet", dir: "auto" }, samples.texts[n])) : name;
  }

  function mixText(n) {
    return pairs(n).map(([part, share]) => `${parts.names[part]} ${(share / 10).toFixed(1)}%`).join("; ");
  }

  function search() {
    const wanted = byId("sample-search").value.trim().toLowerCase();
    const part = byId("sample-part").value;
    if (wanted && !lowered) lowered = samples.labels.map((label, n) => `${label} ${samples.texts ? samples.texts[n] : ""}`.toLowerCase());
    const names = samples.groups ? samples.groups.map((name) => name.toLowerCase()) : [];
    found = [];
    for (let n = 0; n < samples.labels.length; n += 1) {
      const named = !wanted || lowered[n].includes(wanted) || (samples.groups && names[samples.group_of[n]].includes(wanted));
      if (named && (part === "" || first(n) === Number(part))) found.push(n);
    }
    arrange();
  }

  function arrange() {
    const value = sorting.column === null ? (n) => n : columns[sorting.column].value;
    const sign = sorting.down ? -1 : 1;
    found.sort((one, other) => sign * (value(one) - value(other)) || one - other);
    page = 0;
    show();
  }

  function show() {
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    byId("sample-rows").replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map((n) =>
      element("tr", {}, ...columns.map((column) => element("td", { class: column.number ? "number" : "", "data-title": column.title }, column.shown(n))))));
    const listed = samples.labels.length < samples.n ? ` (evenly spaced, of ${samples.n})` : "";
    byId("sample-count").textContent = `${found.length} of ${samples.labels.length} samples${listed}`;
    byId("page-number").textContent = `page ${page + 1} of ${pages}`;
    byId("page-back").disabled = page === 0;
    byId("page-on").disabled = page + 1 >= pages;
    [...byId("sample-head").children].forEach((head, at) => {
      head.setAttribute("aria-sort", at === sorting.column ? (sorting.down ? "descending" : "ascending") : "none");
      head.querySelector("span").textContent = at === sorting.column ? (sorting.down ? " ▼" : " ▲") : "";
    });
  }

  byId("sample-head").append(...columns.map((column, at) => {
    const button = element("button", { type: "button" }, column.title, element("span", { "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      sorting = { column: at, down: sorting.column === at ? !sorting.down : Boolean(column.number) };
      arrange();
    });
    return element("th", { scope: "col", class: column.number ? "number" : "" }, button);
  }));
  partSelect("sample-part", "any part");
  whenRenamed(show);
  byId("sample-search").addEventListener("input", search);
  byId("sample-part").addEventListener("change", search);
  byId("page-back").addEventListener("click", () => { page -= 1; show(); });
  byId("page-on").addEventListener("click", () => { page += 1; show(); });
  byId("download-samples").addEventListener("click", () => {
    const rows = found.map((n) => columns.map((column) => (column.text || column.value)(n)));
    download("samples.csv", [columns.map((column) => column.title), ...rows]);
  });
  show();
}

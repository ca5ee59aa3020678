// Structure: samples as stacked bars, some thousand pixels of a few paths.
const WIDTH = 1100;
const HEIGHT = 240;
const FOOT = 40;

function sampleWords(sample) {
  const samples = data.samples;
  const words = [isolated(samples.labels[sample])];
  if (samples.groups) words.push(" (", isolated(samples.groups[samples.group_of[sample]]), ")");
  for (let at = 0; at < samples.per_sample; at += 1) {
    const share = samples.shares[sample * samples.per_sample + at];
    if (share > 0) {
      const name = parts.names[samples.parts[sample * samples.per_sample + at]];
      words.push(at ? ", " : ": ", isolated(name), ` ${(share / 10).toFixed(1)}%`);
    }
  }
  return words;
}

function sortedBars(structure, by) {
  const bars = structure.samples.map((sample, at) => at);
  if (by === null) return bars;
  const group = (bar) => (data.samples.groups ? data.samples.group_of[structure.samples[bar]] : 0);
  const share = (bar) => structure.shares[bar * structure.parts + by];
  return bars.sort((one, other) => group(one) - group(other) || share(other) - share(one) || one - other);
}

// The chosen part stands at the bottom; without one, parts are stacked in their order.
function barPath(structure, bars, part, alone) {
  const width = WIDTH / bars.length;
  const before = (bar) => {
    let sum = 0;
    for (let k = 0; !alone && k < part; k += 1) sum += structure.shares[bar * structure.parts + k];
    return sum;
  };
  const y = (sum) => (HEIGHT * (1 - sum / 1000)).toFixed(1);
  const top = [];
  const bottom = [];
  bars.forEach((bar, at) => {
    const low = before(bar);
    const high = low + structure.shares[bar * structure.parts + part];
    const [left, right] = [(at * width).toFixed(1), ((at + 1) * width).toFixed(1)];
    top.push(`${left},${y(high)} ${right},${y(high)}`);
    bottom.push(`${right},${y(low)} ${left},${y(low)}`);
  });
  return `M${top.join(" ")} ${bottom.reverse().join(" ")}Z`;
}

function groupMarks(structure, bars) {
  const samples = data.samples;
  if (!samples.groups) return [];
  const marks = [];
  // On a narrow screen the picture shrinks, and its letters must not.
  const letters = Math.min(33, Math.max(12, (12 * WIDTH) / Math.max(byId("structure-plot").clientWidth, 1)));
  let start = 0;
  bars.forEach((bar, at) => {
    const own = samples.group_of[structure.samples[bar]];
    const last = at === bars.length - 1 || samples.group_of[structure.samples[bars[at + 1]]] !== own;
    if (!last) return;
    const [from, to] = [(start * WIDTH) / bars.length, ((at + 1) * WIDTH) / bars.length];
    const room = Math.floor((to - from) / (0.6 * letters));
    const name = samples.groups[own];
    const text = name.length <= room ? name : room > 2 ? `${name.slice(0, room - 1)}…` : "";
    const label = drawn("text", { x: (from + to) / 2, y: HEIGHT + letters + 3, "text-anchor": "middle" }, text);
    label.style.fontSize = `${letters}px`;
    marks.push(label);
    if (at < bars.length - 1) marks.push(drawn("line", { class: "parting", x1: to, x2: to, y1: 0, y2: HEIGHT + 6 }));
    start = at + 1;
  });
  return marks;
}

function startStructure() {
  if (!data.samples) {
    byId("structure").hidden = true;
    return;
  }
  const structure = data.samples.structure;
  const image = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + FOOT}`, role: "img", tabindex: "0",
    "aria-label": `Stacked bars of ${structure.samples.length} samples; arrow keys move from sample to sample` });
  const legend = byId("structure-legend");
  const select = partSelect("structure-part", "all parts");
  let by = null;
  let bars = [];
  let at = 0;
  const cursor = drawn("rect", { class: "cursor", y: 0, height: HEIGHT, visibility: "hidden" });

  function point(position) {
    at = Math.min(Math.max(position, 0), bars.length - 1);
    const width = WIDTH / bars.length;
    filled(cursor, { x: at * width, width: Math.max(width, 2), visibility: "visible" }, []);
    byId("structure-readout").replaceChildren(...sampleWords(structure.samples[bars[at]]));
  }

  function draw() {
    bars = sortedBars(structure, by);
    const coloured = Math.min(structure.parts, structure.colours);
    const layers = by === null
      ? Array.from({ length: coloured }, (_, part) => drawn("path", { d: barPath(structure, bars, part, false), fill: fillOf(part) }))
      : [drawn("path", { class: "alone", d: barPath(structure, bars, by, true) })];
    image.replaceChildren(drawn("rect", { class: "rest", width: WIDTH, height: HEIGHT }),
      ...layers, ...groupMarks(structure, bars), cursor);
    [...legend.querySelectorAll("button")].forEach((one, part) => one.setAttribute("aria-pressed", String(by === part)));
    select.value = by === null ? "" : String(by);
  }

  image.addEventListener("mousemove", (event) => {
    const box = image.getBoundingClientRect();
    point(Math.floor(((event.clientX - box.left) / box.width) * bars.length));
  });
  image.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 25, PageUp: -25, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    point(at + step);
  });
  function fillLegend() {
    const count = Math.min(structure.parts, structure.colours);
    legend.replaceChildren(...Array.from({ length: count }, (_, part) => {
      const button = element("button", { type: "button", "aria-pressed": String(by === part) }, swatch(part), isolated(parts.names[part]));
      button.addEventListener("click", () => {
        by = by === part ? null : part;
        draw();
      });
      return button;
    }));
    if (parts.total > count) legend.append(element("span", { class: "note" }, "Grey: all other parts."));
  }
  fillLegend();
  whenRenamed(fillLegend);
  select.addEventListener("change", () => {
    by = select.value === "" ? null : Number(select.value);
    draw();
  });
  draw();
  byId("structure-plot").append(image);
  const count = structure.samples.length;
  if (count < data.samples.n) {
    byId("structure-plot").append(element("p", { class: "note" }, `${count} of ${data.samples.n} samples, evenly spaced.`));
  }
}

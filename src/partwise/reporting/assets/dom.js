// Elements are built node by node: text is only ever text, never markup.
const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#666666"];
const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

// A label keeps its own direction and does not turn that of its neighbours.
function isolated(text) {
  return element("bdi", {}, text);
}

function percent(share) {
  const value = 100 * share;
  return `${value.toFixed(value >= 10 ? 1 : value >= 0.1 ? 2 : 3)}%`;
}

function short(value) {
  if (value === null) return "–";
  const size = Math.abs(value);
  if (value !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

// Eight colours can be told apart; further parts are grey, and each can be chosen against grey.
function fillOf(part) {
  return part < COLOURS.length ? COLOURS[part] : "#9aa1a9";
}

function swatch(part) {
  const box = drawn("svg", { width: 14, height: 12, viewBox: "0 0 14 12", "aria-hidden": "true" });
  box.style.width = "14px";
  box.style.flex = "none";
  box.append(drawn("rect", { width: 14, height: 12, fill: fillOf(part) }));
  return box;
}

// A spreadsheet would run a cell that starts like a formula.
function cell(value) {
  let text = value === null ? "" : String(value);
  if (/^[=+\-@\t\r\n]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csv(rows) {
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function download(name, rows) {
  const address = URL.createObjectURL(new Blob([csv(rows)], { type: "text/csv;charset=utf-8" }));
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

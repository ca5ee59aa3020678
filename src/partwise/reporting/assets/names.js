// Names of parts can be edited here; everything that shows them is told, and the file goes to name_parts.
const parts = data.parts;
const originalNames = [...parts.names];
const listeners = [];

function whenRenamed(listener) {
  listeners.push(listener);
}

function renamePart(part, text) {
  const name = text.trim();
  parts.names[part] = name || originalNames[part];
  for (const listener of listeners) listener(part);
}

function partSelect(id, first) {
  const select = byId(id);
  const fill = () => {
    const chosen = select.value;
    select.replaceChildren(...(first ? [element("option", { value: "" }, first)] : []),
      ...parts.names.map((name, part) => element("option", { value: part }, name)));
    select.value = chosen || (first ? "" : "0");
  };
  fill();
  whenRenamed(fill);
  return select;
}

function startNames() {
  byId("part-name").addEventListener("change", (event) => renamePart(chosenPart, event.target.value));
  byId("download-names").addEventListener("click", () =>
    download("names.csv", [["part", "name"], ...parts.names.map((name, part) => [parts.numbers[part], name])]));
}

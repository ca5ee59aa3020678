// The map: a circle for each part, close to those that share its features.
const MAP_WIDTH = 640;
const MAP_HEIGHT = 400;
let mapCircles = [];
let mapPlaces = [];

function mapRadius(part) {
  const crowd = Math.max(12, 34 - 0.8 * parts.names.length);
  return Math.max(4, crowd * Math.sqrt(parts.weights[part] / Math.max(...parts.weights, 1e-300)));
}

// A name as the map shows it, and how wide that is.
function mapName(part) {
  return parts.names[part].length > 28 ? `${parts.names[part].slice(0, 27)}…` : parts.names[part];
}

function nameWidth(part, letters) {
  return (part === chosenPart ? 0.64 : 0.55) * letters * mapName(part).length;
}

function mapWords(part) {
  return [isolated(parts.names[part]), ` (${percent(parts.weights[part])}): `,
    ...rankedFeatures(part, parts.balance).slice(0, 8).flatMap((row, at) => [at ? ", " : "", isolated(row.name)])];
}

function showOnMap() {
  mapCircles.forEach((circle, part) => circle.classList.toggle("chosen", part === chosenPart));
  const chosen = mapCircles[chosenPart];
  if (chosen) {
    chosen.parentNode.append(chosen);
    labelMap();
    byId("map-readout").replaceChildren(...mapWords(chosenPart));
  }
}

// Names of the largest parts and of the chosen one, where there is room: below a circle, above it, or on it.
function labelMap() {
  const layer = document.querySelector("#map svg .names");
  const taken = [];
  // On a narrow screen the picture shrinks, and its letters must not.
  const letters = Math.min(20, Math.max(12, (11 * MAP_WIDTH) / Math.max(byId("map").clientWidth, 1)));
  const order = [chosenPart, ...parts.names.map((name, part) => part).filter((part) => part !== chosenPart)];
  layer.replaceChildren(...order.flatMap((part) => {
    const [x, y] = mapPlaces[part];
    const wide = nameWidth(part, letters);
    const middle = Math.min(Math.max(x, wide / 2 + 4), MAP_WIDTH - wide / 2 - 4);
    const clashes = (box) => taken.some((one) => one.left < box.right && box.left < one.right && one.top < box.bottom && box.top < one.bottom)
      || (part !== chosenPart && order.some((other) => other !== part && coversCircle(box, other)));
    const box = [y + mapRadius(part) + letters + 1, y - mapRadius(part) - 5, y + 0.35 * letters]
      .filter((at) => at < MAP_HEIGHT - 4 && at > letters)
      .map((at) => ({ left: middle - wide / 2, right: middle + wide / 2, top: at - letters, bottom: at + 3 }))
      .find((one) => !clashes(one));
    if (!box) return [];
    taken.push(box);
    const label = drawn("text", { x: middle, y: box.bottom - 3, "text-anchor": "middle", class: part === chosenPart ? "strong" : "" }, mapName(part));
    label.style.fontSize = `${letters}px`;
    return [label];
  }));
}

// Whether a name would hide a good piece of a circle.
function coversCircle(box, part) {
  const [x, y] = mapPlaces[part];
  const reach = 0.7 * mapRadius(part);
  return box.left < x + reach && x - reach < box.right && box.top < y + reach && y - reach < box.bottom;
}

// Between 0 and 1 along an axis: half by distance and half by rank, so that a few parts far off do not crowd the others.
function spread(axis) {
  const all = parts.map.map((place) => place[axis]);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  if (high - low <= 1e-9) return all.map(() => 0.5);
  const sorted = [...all].sort((one, other) => one - other);
  return all.map((value) => ((value - low) / (high - low) + sorted.indexOf(value) / (all.length - 1)) / 2);
}

// What matters on the map is which parts are neighbours: axes are stretched to the frame, and circles moved off each
// other. Few parts also leave room for their names, which stand below the circles.
function placeOnMap() {
  const named = parts.names.length <= 12;
  const half = (part) => (named ? Math.max(mapRadius(part), 0.32 * 12 * mapName(part).length) : mapRadius(part));
  const [across, up] = [spread(0), spread(1)];
  mapPlaces = across.map((x, part) => [70 + x * (MAP_WIDTH - 140), MAP_HEIGHT - 62 - up[part] * (MAP_HEIGHT - 118)]);
  for (let round = 0; round < 400; round += 1) {
    mapPlaces.forEach((one, part) => mapPlaces.slice(0, part).forEach((other, before) => {
      const [dx, dy] = [one[0] - other[0] || 0.01, one[1] - other[1] || 0.01];
      if (named) {
        const over = [half(part) + half(before) + 6 - Math.abs(dx), mapRadius(part) + mapRadius(before) + 20 - Math.abs(dy)];
        const axis = over[0] < over[1] ? 0 : 1;
        const shift = (Math.sign([dx, dy][axis]) * Math.max(Math.min(...over), 0)) / 2;
        one[axis] += shift; other[axis] -= shift;
        return;
      }
      const apart = Math.hypot(dx, dy);
      const push = (mapRadius(part) + mapRadius(before) + 3 - apart) / (2 * apart);
      if (push <= 0) return;
      one[0] += push * dx; one[1] += push * dy; other[0] -= push * dx; other[1] -= push * dy;
    }));
    mapPlaces.forEach((place, part) => {
      const [side, edge] = [half(part) + 2, mapRadius(part) + 2];
      place[0] = Math.min(Math.max(place[0], side), MAP_WIDTH - side);
      place[1] = Math.min(Math.max(place[1], edge), MAP_HEIGHT - edge - (named ? 18 : 0));
    });
  }
}

function startMap() {
  if (parts.names.length < 2 || parts.signed) return;
  byId("map-view").hidden = false;
  placeOnMap();
  const circles = drawn("g");
  mapCircles = parts.names.map((name, part) => {
    const [cx, cy] = mapPlaces[part];
    const circle = drawn("circle", { cx, cy, r: mapRadius(part), class: "part" });
    circle.addEventListener("click", () => choosePart(part));
    circle.addEventListener("mouseenter", () => byId("map-readout").replaceChildren(...mapWords(part)));
    circle.addEventListener("mouseleave", () => byId("map-readout").replaceChildren(...mapWords(chosenPart)));
    return circle;
  });
  // Large circles below, so that small ones can be reached.
  circles.append(...mapCircles.map((circle, part) => part).sort((one, other) => mapRadius(other) - mapRadius(one)).map((part) => mapCircles[part]));
  const image = drawn("svg", { viewBox: `0 0 ${MAP_WIDTH} ${MAP_HEIGHT}`, role: "img", tabindex: "0",
    "aria-label": `Map of ${parts.names.length} parts; arrow keys choose a part, as does the list below` }, circles, drawn("g", { class: "names" }));
  const across = parts.names.map((name, part) => part).sort((one, other) => mapPlaces[one][0] - mapPlaces[other][0]);
  image.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choosePart(across[(across.indexOf(chosenPart) + step + across.length) % across.length]);
  });
  byId("map").append(image);
  whenRenamed(showOnMap);
}

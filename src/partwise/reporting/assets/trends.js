// Shares of the chosen part by group and over time, with intervals.
function intervalFigure(trend, part, kind) {
  const count = trend.labels.length;
  const longest = Math.max(...trend.labels.map((label) => label.length));
  const over = kind === "time";
  const left = over ? 52 : Math.min(190, 20 + 6.8 * longest);
  const width = 560;
  const height = over ? 260 : 40 + 22 * count;
  // Wide intervals of small groups are cut, so that the others can be read.
  const top = Math.max(Math.min(Math.max(...trend.high[part]), 1.6 * Math.max(...trend.shares[part])), 1e-6);
  const image = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${parts.names[part]} ${over ? "over time" : "by group"}: ${trend.labels.map((label, at) => `${label} ${percent(trend.shares[part][at])}`).join(", ")}` });
  const along = over ? (at) => left + ((at + 0.5) * (width - left - 12)) / count : null;
  const size = over ? (share) => height - 44 - (share / top) * (height - 60) : (share) => left + (share / top) * (width - left - 16);
  for (const tick of steps(0, top)) {
    if (tick < 0) continue;
    const place = size(tick);
    image.append(over ? drawn("line", { class: "grid", x1: left, x2: width - 8, y1: place, y2: place })
      : drawn("line", { class: "grid", x1: place, x2: place, y1: 4, y2: height - 24 }),
    over ? drawn("text", { x: left - 6, y: place + 4, "text-anchor": "end" }, `${short(100 * tick)}%`)
      : drawn("text", { x: place, y: height - 8, "text-anchor": "middle" }, `${short(100 * tick)}%`));
  }
  const spacing = Math.ceil((count * 6.8 * longest) / (width - left));
  trend.labels.forEach((label, at) => {
    const [share, low, high] = [trend.shares[part][at], trend.low[part][at], Math.min(trend.high[part][at], top)];
    const known = trend.n[at] > 1;
    if (over) {
      const x = along(at);
      if (known) image.append(drawn("line", { class: "interval", x1: x, x2: x, y1: size(low), y2: size(high) }));
      image.append(drawn("circle", { class: "inside", cx: x, cy: size(share), r: 4 }));
      if (at % spacing === 0) image.append(drawn("text", { x, y: height - 24, "text-anchor": "middle" }, label));
    } else {
      const y = 16 + 22 * at;
      const room = Math.floor((left - 12) / 6.8);
      image.append(drawn("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, label.length > room ? `${label.slice(0, room - 1)}…` : label));
      if (known) image.append(drawn("line", { class: "interval", x1: size(low), x2: size(high), y1: y, y2: y }));
      image.append(drawn("circle", { class: "inside", cx: size(share), cy: y, r: 4 }));
    }
  });
  const listed = trend.of > count ? ` (the ${count} largest of ${trend.of} groups)` : "";
  return element("figure", {}, element("figcaption", {}, isolated(parts.names[part]), over ? " over time" : ` by group${listed}`), image);
}

function showTrends() {
  const { groups, times } = data.trends;
  const figures = [];
  if (times) figures.push(intervalFigure(times, chosenPart, "time"));
  if (groups) figures.push(intervalFigure(groups, chosenPart, "group"));
  byId("trend-figures").replaceChildren(...figures);
  byId("trend-part").value = String(chosenPart);
}

function startTrends() {
  if (!data.trends.groups && !data.trends.times) return;
  byId("trends").hidden = false;
  byId("trends-link").hidden = false;
  partSelect("trend-part").addEventListener("change", (event) => choosePart(Number(event.target.value)));
  whenRenamed(showTrends);
}

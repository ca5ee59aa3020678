// Axes of small charts: linear or logarithmic scales with round ticks.
function scale(values, from, to, logarithmic) {
  const known = values.filter((value) => value !== null && (!logarithmic || value > 0));
  let low = Math.min(...known);
  let high = Math.max(...known);
  if (logarithmic) {
    low = Math.log10(low) - 0.05;
    high = Math.log10(high) + 0.05;
  } else {
    const margin = high > low ? 0.04 * (high - low) : Math.abs(high) || 1;
    low -= margin;
    high += margin;
  }
  const place = (value) => {
    const at = logarithmic ? Math.log10(Math.max(value, 10 ** low)) : value;
    return from + ((at - low) / (high - low)) * (to - from);
  };
  return { place, ticks: logarithmic ? powers(low, high) : steps(low, high) };
}

function steps(low, high) {
  const rough = (high - low) / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step); tick * step <= high; tick += 1) ticks.push(Number((tick * step).toPrecision(12)));
  return ticks;
}

function powers(low, high) {
  const ticks = [];
  for (let power = Math.ceil(low); power <= high; power += 1) ticks.push(10 ** power);
  if (ticks.length > 1) return ticks;
  const fine = [];
  for (let power = Math.floor(low); power <= high; power += 1) fine.push(...[1, 2, 5].map((digit) => Number(`${digit}e${power}`)));
  return fine.filter((tick) => Math.log10(tick) >= low && Math.log10(tick) <= high);
}

function frame(width, height, xs, ys, words) {
  const bottom = 42;
  const image = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words.label });
  const y = scale(ys, height - bottom, 10, words.logarithmic);
  const left = 32 + 7.5 * Math.max(...y.ticks.map((tick) => short(tick).length), 1);
  const x = scale(xs, left, width - 12, words.logarithmic);
  for (const tick of x.ticks) {
    image.append(drawn("line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: 10, y2: height - bottom }),
      drawn("text", { x: x.place(tick), y: height - bottom + 16, "text-anchor": "middle" }, short(tick)));
  }
  for (const tick of y.ticks) {
    image.append(drawn("line", { class: "grid", x1: left, x2: width - 12, y1: y.place(tick), y2: y.place(tick) }),
      drawn("text", { x: left - 6, y: y.place(tick) + 4, "text-anchor": "end" }, short(tick)));
  }
  image.append(drawn("path", { class: "axis", fill: "none", d: `M${left} 10 V${height - bottom} H${width - 12}` }),
    drawn("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, words.x),
    drawn("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(12 ${(height - bottom) / 2}) rotate(-90)` }, words.y));
  return { image, x: x.place, y: y.place };
}

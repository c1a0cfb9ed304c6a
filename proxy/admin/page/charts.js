// Charts drawn as SVG. All that have time on their x axis show the same ten
// minutes and share the line under the pointer.

const NS = "http://www.w3.org/2000/svg";
export const longest = 600_000; // milliseconds

let span = longest; // of the x axes

// setSpan lets a process that is young fill the charts.
export function setSpan(times) {
  const age = times.at(-1) - times[0];
  span = [60_000, 120_000, 300_000].find((s) => age < s) ?? longest;
}

let pointer = null; // the time under it
const drawn = new Set();

export function node(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:") ? document.createElementNS(NS, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// ceiling is a round number above the largest value.
export function ceiling(largest) {
  if (!(largest > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(largest));
  for (const step of [1, 1.5, 2, 3, 4, 5, 8, 10]) {
    if (largest <= step * unit * 1.0001) return step * unit;
  }
  return 10 * unit;
}

const paint = (element, property, color) => element.style.setProperty(property, color);

function path(points, close) {
  let text = "", open = false;
  for (const p of points) {
    if (p === null) { open = false; continue; }
    text += `${open ? "L" : "M"}${p[0].toFixed(1)} ${p[1].toFixed(1)}`;
    open = true;
  }
  return close && text ? text + "Z" : text;
}

// runs cuts values where some are missing.
function runs(values) {
  const all = [];
  let run = null;
  values.forEach((v, i) => {
    if (v === null || v === undefined) { run = null; return; }
    if (!run) all.push(run = []);
    run.push(i);
  });
  return all;
}

// nameOf is what a chart is called where it is not seen: the heading over it, and
// its newest figures.
function nameOf(element, figures) {
  const heading = element.closest("article, section")?.querySelector("h3, h2");
  return `${heading?.firstChild?.textContent.trim() ?? "chart"}: ${figures.join(", ") || "nothing"}`;
}

const textOf = (value, format) => value === null || value === undefined ? "unknown" : format(value);

// TimeChart draws series over the last ten minutes. Options: stacked, format,
// max (a least upper end), fixed (the upper end), unit (what round ends are of), reference (a dotted line),
// bare (neither axes nor numbers), empty (the text of a chart without values; if it is stacked or of rates, 0 is none).
export class TimeChart {
  constructor(element, options = {}) {
    this.element = element;
    this.options = { format: (v) => v.toFixed(1), max: 0, ...options };
    this.times = [];
    this.series = [];
    this.svg = node("svg:svg", { role: "img" });
    element.append(this.svg);
    new ResizeObserver(() => this.draw()).observe(element);
    element.addEventListener("pointermove", (event) => this.point(event));
    element.addEventListener("pointerleave", () => { pointer = null; redrawCrosses(null); });
    drawn.add(this);
  }

  // set takes the times in milliseconds, and series of {name, color, values}.
  set(times, series) {
    const { empty, stacked, rates, format } = this.options, isNothing = (v) => v === null || v === undefined || v === 0 && (stacked || rates);
    this.times = times;
    this.empty = empty && series.every((s) => s.values.every(isNothing)) ? empty : null;
    this.svg.setAttribute("aria-label", nameOf(this.element, this.empty ? [this.empty] : series.map((s) => `${s.name} ${textOf(s.values.at(-1), format)}`)));
    this.series = series.filter((s) => s.values.some((v) => v !== null && v !== undefined));
    this.draw();
  }

  stacks() {
    if (!this.options.stacked) return this.series.map((s) => ({ ...s, low: null, high: s.values }));
    let below = this.times.map(() => 0);
    return this.series.map((s) => {
      const low = below;
      const high = s.values.map((v, i) => low[i] + (v ?? 0));
      below = high;
      return { ...s, low, high };
    });
  }

  draw() {
    const width = this.element.clientWidth, height = this.element.clientHeight;
    if (!width || !height) return;
    const bare = this.options.bare;
    this.box = { left: 0, right: width - (bare ? 2 : 44), top: 8, bottom: height - (bare ? 2 : 17) };
    const stacks = this.stacks();
    const largest = Math.max(this.options.max, ...stacks.flatMap((s) => s.high.map((v) => v ?? 0)));
    const unit = this.options.unit ?? 1;
    this.top = this.options.fixed ?? ceiling(largest / unit) * unit;
    this.newest = this.times.at(-1) ?? Date.now();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    if (this.empty) {
      this.svg.replaceChildren(node("svg:text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "none" }, this.empty));
      this.box = null;
      return;
    }
    this.svg.replaceChildren(...(bare ? [] : this.axes()), ...stacks.flatMap((s) => this.shape(s)));
    if (this.options.reference !== undefined && this.options.reference <= this.top) {
      const y = this.y(this.options.reference);
      this.svg.append(node("svg:line", { class: "ref", x1: this.box.left, x2: this.box.right, y1: y, y2: y }));
    }
    this.cross();
  }

  x(time) { return this.box.right - (this.newest - time) / span * (this.box.right - this.box.left); }
  y(value) { return this.box.bottom - Math.min(value, this.top) / this.top * (this.box.bottom - this.box.top); }

  axes() {
    const marks = [];
    for (const share of this.element.clientHeight > 120 ? [0, .5, 1] : [0, 1]) {
      const y = this.y(this.top * share);
      marks.push(node("svg:line", { class: "grid", x1: this.box.left, x2: this.box.right, y1: y, y2: y }));
      if (share) marks.push(node("svg:text", { x: this.box.right + 6, y: y + 4 }, this.options.format(this.top * share)));
    }
    for (const back of [span, span / 2]) {
      const text = back < 120_000 ? `${back / 1000} s` : `${back / 60_000} min`;
      marks.push(node("svg:text", { x: this.x(this.newest - back), y: this.box.bottom + 14, "text-anchor": back === span ? "start" : "middle" }, text));
    }
    marks.push(node("svg:text", { x: this.box.right, y: this.box.bottom + 14, "text-anchor": "end" }, "now"));
    return marks;
  }

  shape(s) {
    const made = [];
    for (const run of runs(s.high)) {
      const upper = run.map((i) => [this.x(this.times[i]), this.y(s.high[i])]);
      const lower = run.map((i) => [this.x(this.times[i]), this.y(s.low ? s.low[i] : 0)]).reverse();
      if (this.options.stacked || s.filled !== false && this.series.length === 1) {
        const area = node("svg:path", { d: path([...upper, ...lower], true) });
        paint(area, "fill", s.color);
        paint(area, "opacity", this.options.stacked ? ".82" : ".14");
        made.push(area);
      }
      if (!this.options.stacked) {
        const line = node("svg:path", { class: "line", d: path(upper.length > 1 ? upper : [upper[0], [upper[0][0] + 1, upper[0][1]]]) });
        paint(line, "stroke", s.color);
        made.push(line);
      }
    }
    return made;
  }

  point(event) {
    if (!this.box) return;
    const x = event.clientX - this.element.getBoundingClientRect().left;
    pointer = this.newest - (this.box.right - x) / (this.box.right - this.box.left) * span;
    redrawCrosses(this);
  }

  nearest() {
    let best = -1;
    this.times.forEach((t, i) => { if (best < 0 || Math.abs(t - pointer) < Math.abs(this.times[best] - pointer)) best = i; });
    return best;
  }

  cross(owner) {
    this.svg.querySelector(".cross")?.remove();
    this.element.querySelector(".tip")?.remove();
    if (pointer === null || !this.box || !this.times.length) return;
    const i = this.nearest(), x = this.x(this.times[i]);
    if (x < this.box.left) return;
    this.svg.append(node("svg:line", { class: "cross", x1: x, x2: x, y1: this.box.top, y2: this.box.bottom }));
    if (owner === this) this.label(i, x);
  }

  label(i, x) {
    const rows = this.series.filter((s) => s.values[i] !== null && s.values[i] !== undefined).map((s) => {
      const dot = node("span", { class: "swatch" });
      paint(dot, "background", s.color);
      return node("div", {}, node("span", {}, dot, ` ${s.name}`), node("b", {}, this.options.format(s.values[i])));
    });
    const tip = node("div", { class: "tip" }, node("time", {}, new Date(this.times[i]).toLocaleTimeString()), ...rows.reverse());
    this.element.append(tip);
    const left = x + 12 + tip.offsetWidth > this.element.clientWidth ? x - 12 - tip.offsetWidth : x + 12;
    tip.style.left = `${Math.max(0, left)}px`;
  }
}

function redrawCrosses(owner) {
  for (const chart of drawn) {
    if (!chart.element.isConnected) drawn.delete(chart);
    else chart.cross(owner);
  }
}

// drawDistribution draws shares as columns, with their percentages on top.
export function drawDistribution(element, columns) {
  const width = element.clientWidth, height = element.clientHeight;
  if (!width) return;
  const total = columns.reduce((sum, c) => sum + c.count, 0);
  if (!total) { element.replaceChildren(node("p", { class: "empty" }, "No response with a known block in ten minutes")); return; }
  const svg = node("svg:svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": nameOf(element, columns.map((c) => `${c.name}: ${(c.count / total * 100).toFixed(1)}%`)) });
  const slot = width / columns.length, bottom = height - 18, top = 20;
  columns.forEach((c, i) => {
    const share = c.count / total, x = i * slot + slot * .14, w = slot * .72, tall = share * (bottom - top);
    const rail = node("svg:rect", { x, y: top, width: w, height: bottom - top, rx: 4 });
    paint(rail, "fill", "var(--grid)");
    paint(rail, "opacity", ".55");
    const bar = node("svg:rect", { x, y: bottom - Math.max(tall, share ? 2 : 0), width: w, height: Math.max(tall, share ? 2 : 0), rx: 4 });
    paint(bar, "fill", "var(--c-hit)");
    paint(bar, "opacity", i === 0 ? "1" : ".5");
    const percent = share === 0 ? "" : share < .001 ? "<0.1" : (share * 100).toFixed(share < .0995 ? 1 : 0);
    svg.append(rail, bar,
      node("svg:text", { x: x + w / 2, y: Math.max(12, bottom - tall - 6), "text-anchor": "middle", class: "on" }, percent && `${percent}%`),
      node("svg:text", { x: x + w / 2, y: bottom + 14, "text-anchor": "middle" }, c.name));
  });
  element.replaceChildren(svg);
}

// bar is a list item with its share drawn behind it.
export function bar(name, text, share, color) {
  const svg = node("svg:svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  const rail = node("svg:rect", { width: 100, height: 10 }), fill = node("svg:rect", { width: (share * 100).toFixed(2), height: 10 });
  paint(rail, "fill", "var(--grid)");
  paint(rail, "opacity", ".5");
  paint(fill, "fill", color);
  paint(fill, "opacity", ".3");
  svg.append(rail, fill);
  return node("li", { title: name }, svg, node("span", {}, name), node("span", {}, text));
}

// drawRange draws which blocks a node can be read at, up to the tip.
export function drawRange(element, lowest, height, tip, text) {
  const width = element.clientWidth;
  if (!width) return;
  const svg = node("svg:svg", { viewBox: `0 0 ${width} 34`, role: "img", "aria-label": nameOf(element, text.filter(Boolean)) });
  const rail = node("svg:rect", { x: 0, y: 6, width, height: 8, rx: 4 });
  paint(rail, "fill", "var(--grid)");
  svg.append(rail);
  if (tip > 0 && height > 0) {
    // The last blocks matter most, so the scale is logarithmic towards the tip.
    const depth = Math.log10(Math.max(tip, 10)) , at = (h) => width - Math.min(1, Math.log10(Math.max(tip - h, 0) + 1) / depth) * width;
    const from = lowest > 1 ? at(lowest) : 0, to = at(height);
    const fill = node("svg:rect", { x: from.toFixed(1), y: 6, width: Math.max(4, to - from).toFixed(1), height: 8, rx: 4 });
    paint(fill, "fill", tip - height > 3 ? "var(--warn)" : "var(--accent)");
    svg.append(fill);
  }
  svg.append(node("svg:text", { x: 0, y: 29 }, text[0]), node("svg:text", { x: width, y: 29, "text-anchor": "end" }, text[1]));
  element.replaceChildren(svg);
}

// drawProgress fills a rail by a share.
export function drawProgress(element, share) {
  const svg = node("svg:svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none" });
  const fill = node("svg:rect", { width: (Math.min(1, share) * 100).toFixed(2), height: 6 });
  paint(fill, "fill", "var(--accent)");
  svg.append(fill);
  element.replaceChildren(svg);
}

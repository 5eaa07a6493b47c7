// Elements are built, never parsed: names and features can only become text.
function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) if (value !== false) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = (id) => document.getElementById(id);
const pairKey = (a, b) => (a < b ? `${a} ${b}` : `${b} ${a}`);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

const shorten = (text, most) => ([...text].length <= most ? text : `${[...text].slice(0, most - 1).join("")}…`);
const number = (value) => (value === null ? "unknown" : String(Number(value.toPrecision(3))).replace("-", "−"));
const plus = (value) => (value > 0 ? "+" : "");
const percent = (value) => (value === null ? "unknown" : `${(100 * value).toFixed(1)}%`);
const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const answerText = (explanation, value) => (explanation.kind === "value" ? number(value) : percent(value));

// Numbers of one column: as many decimals for all as give the largest three digits.
function inColumn(values) {
  const most = Math.max(...values.map((value) => Math.abs(value ?? 0)), 1e-9);
  const decimals = clamp(2 - Math.floor(Math.log10(most)), 0, 6);
  return (value) => (value === null ? "unknown" : value.toFixed(decimals).replace("-", "−"));
}

function arguesText(explanation, pattern) {
  if (explanation.kind === "value") return pattern.argues ? "raises it" : "lowers it";
  return `argues for ${explanation.classes[pattern.argues]}`;
}

function patternFacts(explanation, pattern) {
  const without = `without it: ${answerText(explanation, pattern.without)}`;
  if (pattern.expected) return [arguesText(explanation, pattern), without, "exact, not drawn"];
  return [arguesText(explanation, pattern), without, counted(pattern.scale, "step"), counted(pattern.count, "walk")];
}

// The steps at which a walk is at each node: {node: [0, 2]}, in the order in which it meets them.
function stepsOf(walk) {
  const steps = new Map();
  walk.forEach((node, step) => steps.set(node, [...(steps.get(node) ?? []), step]));
  return steps;
}

const crossedPairs = (walk) => new Set(walk.slice(1).map((node, step) => pairKey(walk[step], node)));

// A bar from zero to a value inside [low, high], with a whisker for its spread: negative goes to the left.
function bar(value, spread, low, high) {
  const at = (x) => (100 * (x - low)) / (high - low || 1);
  const part = (name, from, to) => {
    const element = html("i", { class: name });
    element.style.left = `${at(from)}%`;
    element.style.width = `${at(to) - at(from)}%`;
    return element;
  };
  const parts = [part(value < 0 ? "fill against" : "fill", Math.min(0, value), Math.max(0, value))];
  if (low < 0) parts.push(part("zero", 0, 0));
  if (spread) parts.push(part("spread", Math.max(low, value - spread), Math.min(high, value + spread)));
  return html("span", { class: "bar", "aria-hidden": "true" }, ...parts);
}

// An expected pattern has no walk: the explained instance, and a ring for each step that it reaches.
function expectedThumbnail({ scale }) {
  const rings = Array.from({ length: scale }, (_, i) => svg("circle", { class: "reach", cx: 32, cy: 32, r: 11 + 6 * i }));
  const square = svg("rect", { x: 27.5, y: 27.5, width: 9, height: 9, class: "first" });
  return svg("svg", { class: "thumbnail", viewBox: "0 0 64 64", "aria-hidden": "true" }, ...rings, square);
}

function thumbnail(explanation, pattern) {
  if (pattern.expected) return expectedThumbnail(pattern);
  const order = [...stepsOf(pattern.walk).keys()];
  const points = new Map(order.map((node, i) => [node, pattern.places[i].map((p, axis) => 32 + 46 * (axis ? -p : p))]));
  const crossed = crossedPairs(pattern.walk);
  const lines = pattern.edges.map(([a, b]) => {
    const [[x1, y1], [x2, y2]] = [points.get(a), points.get(b)];
    return svg("line", { x1, y1, x2, y2, class: crossed.has(pairKey(a, b)) ? "crossed" : "among" });
  });
  const dots = order.map((node, i) => {
    const [[x, y], seen] = [points.get(node), explanation.view.nodes[node]];
    const element = explanation.view.atoms ? { "data-element": seen.kind } : {};
    const size = i === 0 && !explanation.view.atoms ? 9 : 8;
    return i === 0
      ? svg("rect", { ...element, x: x - size / 2, y: y - size / 2, width: size, height: size, class: "first" })
      : svg("circle", { ...element, cx: x, cy: y, r: 4 });
  });
  return svg("svg", { class: "thumbnail", viewBox: "0 0 64 64", "aria-hidden": "true" }, ...lines, ...dots);
}

// Round numbers for an axis.
function ticks(low, high, steps, parts) {
  const rough = (high - low) / parts || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * steps.find((s) => s * power >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
}

// A small line chart: the best first as a full line, random ones as a dashed line in a band, both named at their ends.
function chart(curve, isValue, xTitle, xText, name) {
  const spread = curve.random.map((v, i) => [v - curve.spread[i], v + curve.spread[i]]);
  const seen = [...curve.top, ...spread.flat()];
  const [low, high] = isValue ? [Math.min(...seen), Math.max(...seen)] : [0, 1];
  const [from, to] = [curve.share[0], curve.share.at(-1)];
  const x = (v) => 44 + (204 * (v - from)) / (to - from || 1);
  const y = (v) => 146 - (132 * (clamp(v, low, high) - low)) / (high - low || 1);
  const line = (values) => values.map((v, i) => (v === null ? "" : `${x(curve.share[i])},${y(v)}`)).join(" ");
  const grid = ticks(low, high, [1, 2, 2.5, 5, 10], 4).flatMap((v) => [
    svg("line", { class: "grid", x1: 44, x2: 248, y1: y(v), y2: y(v) }),
    svg("text", { x: 38, y: y(v) + 4, "text-anchor": "end" }, isValue ? number(v) : `${Math.round(100 * v)}%`),
  ]);
  const whole = to > 1; // numbers of patterns, not shares
  const marks = ticks(from, to, [1, 2, 5, 10], 5).filter((v) => !whole || Number.isInteger(v));
  const below = marks.map((v) => svg("text", { x: x(v), y: 164, "text-anchor": "middle" }, xText(v)));
  const band = [...spread.map(([, up], i) => `${x(curve.share[i])},${y(up)}`),
    ...spread.map(([down], i) => `${x(curve.share[i])},${y(down)}`).reverse()];
  const ends = [y(curve.top.at(-1) ?? low), y(curve.random.at(-1) ?? low)];
  const push = Math.max(0, (14 - Math.abs(ends[0] - ends[1])) / 2) * (ends[0] > ends[1] ? 1 : -1);
  return svg("svg", { class: "chart", viewBox: "0 0 320 190", role: "img", "aria-label": name }, ...grid, ...below,
    svg("text", { x: 146, y: 183, "text-anchor": "middle" }, xTitle),
    svg("polygon", { class: "band", points: band.join(" ") }),
    svg("polyline", { class: "random", points: line(curve.random) }),
    svg("polyline", { class: "top", points: line(curve.top) }),
    svg("text", { class: "name top", x: 254, y: ends[0] + push + 4 }, "best first"),
    svg("text", { class: "name", x: 254, y: ends[1] - push + 4 }, "random"));
}

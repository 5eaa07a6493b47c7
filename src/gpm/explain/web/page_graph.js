const overlaps = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

const GROWTH = 0.15; // marks grow as this power of the zoom
const CROWDED = 22; // nearer than this, in pixels, the steps of a walk cover each other

// The neighbourhood. Zoom moves one group; marks shrink again by one variable, so that names stay readable.
class Graph {
  constructor(view, id, hooks) {
    Object.assign(this, { view, hooks, zoom: 1, x: 0, y: 0, lit: [], gap: Infinity, fingers: new Map() });
    const starts = view.nodes.filter((node) => node.start).length;
    this.marksStart = starts < view.nodes.length;
    this.cursor = Math.max(0, view.nodes.findIndex((node) => node.start));
    this.edges = view.edges.map((edge) => {
      const line = svg("line", { class: edge.weight ? "edge heavy" : "edge" });
      line.style.setProperty("--weight", edge.weight ?? 0);
      return line;
    });
    this.edgeOf = new Map(view.edges.map((edge, i) => [pairKey(edge.source, edge.target), this.edges[i]]));
    this.nodes = view.nodes.map((node, i) => this.drawNode(node, `${id}-node-${i}`));
    [this.trail, this.steps] = [svg("g", { class: "trail" }), svg("g", { class: "steps" })];
    this.world = svg("g", {}, svg("g", {}, ...this.edges), this.trail, svg("g", {}, ...this.nodes), this.steps);
    const label = `${counted(view.nodes.length, "node")}: arrow keys move between them, plus and minus zoom`;
    this.svg = svg("svg", { class: "graph", tabindex: 0, role: "listbox", "aria-label": label }, this.world);
    this.listen();
    new ResizeObserver(() => this.place()).observe(this.svg);
  }

  drawNode(node, id) {
    const name = [node.name, node.kind].filter(Boolean).join(", ");
    const start = node.start && this.marksStart;
    const mark = svg("g", { class: "mark" });
    if (start) mark.append(svg("rect", { class: "ring" }));
    mark.append(svg(start ? "rect" : "circle", { class: "dot" }));
    if (this.view.atoms) mark.append(svg("text", { class: "symbol", dy: ".36em" }, shorten(node.kind, 3)));
    mark.append(svg("text", { class: "label" }, shorten(node.name, 16)));
    const attributes = { class: start ? "node start" : "node", "aria-label": start ? `${name}, explained` : name };
    if (this.view.atoms) attributes["data-element"] = node.kind;
    Object.assign(attributes, { id, role: "option", "data-name": node.name });
    const drawn = svg("g", attributes, svg("title", {}, node.name), mark);
    drawn.style.setProperty("--weight", node.weight ?? 0);
    return drawn;
  }

  // Fit the points to the room there is. Molecules keep their angles, other drawings may be stretched a little.
  place() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width || !height) return;
    const { nodes, atoms } = this.view;
    const side = (axis) => [Math.min(...nodes.map((n) => n[axis])), Math.max(...nodes.map((n) => n[axis]))];
    const [[left, right], [bottom, top]] = [side("x"), side("y")];
    const room = [(width - 76) / (right - left || 1e-6), (height - 72) / (top - bottom || 1e-6)];
    const [scaleX, scaleY] = room.map((scale) => Math.min(scale, Math.min(...room) * (atoms ? 1 : 2)));
    this.points = nodes.map((n) => [
      width / 2 + (n.x - (left + right) / 2) * scaleX,
      height / 2 - (n.y - (bottom + top) / 2) * scaleY,
    ]);
    const area = (80 + (right - left) * scaleX) * (80 + (top - bottom) * scaleY);
    this.spacing = Math.sqrt(Math.min(area, width * height) / nodes.length);
    this.radius = clamp(this.spacing * (atoms ? 0.24 : 0.13), 3.2, atoms ? 15 : 8);
    Object.assign(this, { size: [width, height], settled: null });
    this.nodes.forEach((element, i) => this.placeNode(element, this.points[i]));
    this.view.edges.forEach((edge, i) => {
      const [[x1, y1], [x2, y2]] = [this.points[edge.source], this.points[edge.target]];
      fill(this.edges[i], { x1, y1, x2, y2 }, []);
    });
    this.move();
    if (this.walk) this.light(this.walk.nodes, this.walk.pairs, this.walk.walk);
  }

  placeNode(element, [x, y]) {
    element.setAttribute("transform", `translate(${x} ${y})`);
    const r = this.radius;
    for (const circle of element.querySelectorAll("circle")) circle.setAttribute("r", r);
    for (const square of element.querySelectorAll("rect")) {
      const half = square.classList.contains("ring") ? Math.max(r + 5.5, 13) : r + 1;
      fill(square, { x: -half, y: -half, width: 2 * half, height: 2 * half, rx: half / 4 }, []);
    }
    const symbol = element.querySelector(".symbol");
    if (symbol) symbol.style.fontSize = `${r * 1.05}px`;
  }

  move() {
    this.world.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.zoom})`);
    this.svg.style.setProperty("--shrink", this.zoom ** (GROWTH - 1));
    this.svg.classList.toggle("zoomed", this.zoom > 1);
    this.sizeSteps();
    if (this.settled === this.zoom) return;
    this.settled = this.zoom;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.settleLabels());
  }

  zoomBy(factor, [x, y] = this.size.map((side) => side / 2)) {
    const zoom = clamp(this.zoom * factor, 0.7, 14);
    [this.x, this.y] = [x - ((x - this.x) * zoom) / this.zoom, y - ((y - this.y) * zoom) / this.zoom];
    this.zoom = zoom;
    this.move();
  }

  reset() {
    Object.assign(this, { zoom: 1, x: 0, y: 0 });
    this.move();
  }

  centre(node) {
    this.zoom = Math.max(this.zoom, this.spacing < 40 ? 3 : 1.6);
    [this.x, this.y] = this.points[node].map((p, axis) => this.size[axis] / 2 - p * this.zoom);
    this.move();
  }

  // Names where they cover neither a node nor another name: the explained and the heaviest nodes choose first.
  settleLabels() {
    const grow = this.zoom ** GROWTH;
    const disc = ([x, y], r) => [x * this.zoom - r, y * this.zoom - r, x * this.zoom + r, y * this.zoom + r];
    const taken = this.points.map((point) => disc(point, this.radius * grow + 2));
    const roomy = !this.view.atoms && this.spacing * this.zoom >= 38;
    const order = this.view.nodes.map((_, i) => i).sort((a, b) => this.rank(b) - this.rank(a));
    for (const i of order) {
      const text = this.nodes[i].querySelector(".label");
      const wide = (6.4 * text.textContent.length + 2) * grow;
      const away = Math.max(this.radius, 9) + (this.nodes[i].classList.contains("start") ? 7 : 3);
      const [x, y] = this.points[i].map((p) => p * this.zoom);
      const spots = [[0, away + 9, "middle"], [0, -away, "middle"], [away, 4, "start"], [-away, 4, "end"]];
      const boxes = spots.map(([dx, dy, anchor]) => {
        const left = x + dx * grow - { start: 0, middle: wide / 2, end: wide }[anchor];
        return [left, y + (dy - 9) * grow, left + wide, y + (dy + 2) * grow];
      });
      const free = boxes.findIndex((box) => roomy && !taken.some((other, j) => j !== i && overlaps(box, other)));
      const [dx, dy, anchor] = spots[Math.max(free, 0)];
      fill(text, { x: dx, y: dy, "text-anchor": anchor }, []);
      this.nodes[i].classList.toggle("named", free >= 0);
      if (free >= 0) taken.push(boxes[free]);
    }
  }

  rank(i) {
    return (this.view.nodes[i].start ? 2 : 0) + (this.view.nodes[i].weight ?? 0);
  }

  // Light some nodes and edges, and write the order of a walk on them; everything else is dimmed by one class.
  light(nodes, pairs = [], walk = []) {
    this.walk = { nodes, pairs, walk };
    for (const element of this.lit) element.classList.remove("lit");
    const edges = pairs.map(([a, b]) => this.edgeOf.get(pairKey(a, b))).filter(Boolean);
    this.lit = [...[...nodes].map((i) => this.nodes[i]), ...edges];
    for (const element of this.lit) element.classList.add("lit");
    this.svg.classList.toggle("dimmed", this.lit.length > 0);
    this.svg.classList.toggle("walked", walk.length > 0);
    if (this.points) this.drawWalk(walk);
  }

  drawWalk(walk) {
    this.gap = this.closest(walk);
    this.sizeSteps();
    this.trail.replaceChildren();
    this.steps.replaceChildren();
    for (let step = 1; step < walk.length; step += 1) {
      const [[x1, y1], [x2, y2]] = [this.points[walk[step - 1]], this.points[walk[step]]];
      if (walk[step - 1] === walk[step]) continue;
      const angle = (180 / Math.PI) * Math.atan2(y2 - y1, x2 - x1);
      const at = `translate(${x1 + 0.62 * (x2 - x1)} ${y1 + 0.62 * (y2 - y1)}) rotate(${angle})`;
      this.trail.prepend(svg("line", { x1, y1, x2, y2 }));
      this.trail.append(svg("g", { transform: at }, svg("path", { class: "mark", d: "M-5 -6.5L6 0L-5 6.5Z" })));
    }
    for (const [node, steps] of stepsOf(walk)) {
      const text = steps.join("·");
      const half = Math.max(9, 3.4 * text.length + 5);
      const beside = [0.7 * this.radius + half - 6, -0.9 * this.radius]; // not to cover the symbol
      const shift = `translate(${this.view.atoms ? beside.join(" ") : "0 0"})`;
      const shape = { x: -half, y: -9, width: 2 * half, height: 18, rx: steps[0] ? 9 : 3 };
      const badge = svg("g", { class: "badge" }, svg("rect", shape), svg("text", { dy: ".36em" }, text));
      const [x, y] = this.points[node];
      const mark = svg("g", { class: "mark" }, svg("g", { transform: shift }, badge));
      this.steps.append(svg("g", { transform: `translate(${x} ${y})` }, mark));
    }
  }

  sizeSteps() {
    this.steps.style.setProperty("--badge", clamp((this.gap * this.zoom) / CROWDED, 0.6, 1));
  }

  // How near the nearest two of some nodes are drawn.
  closest(nodes) {
    const points = [...new Set(nodes)].map((node) => this.points[node]);
    const apart = points.flatMap(([x, y], i) => points.slice(0, i).map(([px, py]) => Math.hypot(px - x, py - y)));
    return Math.min(...apart, Infinity);
  }

  // Come nearer to a walk whose steps would cover each other; without one, go back to the whole.
  approach(walk) {
    if (!this.points || (!walk && !this.near)) return;
    this.near = Boolean(walk) && (this.near || this.closest(walk) * this.zoom < CROWDED);
    if (walk && this.near) {
      const sides = [0, 1].map((axis) => [...walk].map((node) => this.points[node][axis]));
      const ends = sides.map((side) => [Math.min(...side), Math.max(...side)]);
      const fits = ends.map(([low, high], axis) => (this.size[axis] - 110) / (high - low || 1));
      this.zoom = clamp(Math.min(...fits), 1, 7);
      [this.x, this.y] = ends.map(([low, high], axis) => (this.size[axis] - (low + high) * this.zoom) / 2);
      this.move();
    } else if (!walk) this.reset();
  }

  // Mark nodes by a ring: those that a search found, or the one that is pointed at.
  ring(name, nodes) {
    for (const element of this.svg.querySelectorAll(`.${name}`)) element.classList.remove(name);
    for (const i of nodes) this.nodes[i].classList.add(name);
  }

  nearest([x, y], reach) {
    let [best, least] = [null, reach];
    (this.points ?? []).forEach(([px, py], i) => {
      const distance = Math.hypot(px * this.zoom + this.x - x, py * this.zoom + this.y - y);
      if (distance < least) [best, least] = [i, distance];
    });
    return best;
  }

  listen() {
    const spot = (event) => {
      const { left, top } = this.svg.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    const reach = (event) => (event.pointerType === "touch" ? 26 : 8) + this.radius * this.zoom ** GROWTH;
    const on = (name, act) => this.svg.addEventListener(name, act, { passive: false });
    on("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-clamp(event.deltaY, -120, 120) / 300), spot(event));
    });
    on("pointerdown", (event) => {
      if (event.button) return;
      this.fingers.set(event.pointerId, spot(event));
      this.dragged = this.fingers.size > 1 ? 99 : 0;
      this.svg.setPointerCapture(event.pointerId);
    });
    on("pointermove", (event) => {
      const [now, before] = [spot(event), this.fingers.get(event.pointerId)];
      if (!before) return this.hooks.point(this.nearest(now, reach(event)), event);
      const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
      const moved = [now[0] - before[0], now[1] - before[1]];
      this.fingers.set(event.pointerId, now);
      this.dragged += Math.hypot(...moved);
      if (other) {
        const apart = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
        this.zoomBy(apart(now) / apart(before), other);
      } else if (this.dragged > 4 && (event.pointerType !== "touch" || this.zoom > 1)) {
        [this.x, this.y] = [this.x + moved[0], this.y + moved[1]];
        this.move();
      }
      return undefined;
    });
    on("pointerup", (event) => {
      if (!this.fingers.delete(event.pointerId) || this.dragged > 4) return;
      this.hooks.pick(this.nearest(spot(event), reach(event)));
    });
    on("pointercancel", (event) => this.fingers.delete(event.pointerId));
    on("pointerleave", (event) => this.hooks.point(null, event));
    on("focus", () => this.svg.matches(":focus-visible") && this.stepTo(this.cursor));
    on("blur", () => this.hooks.walk(null));
    on("keydown", (event) => this.press(event));
  }

  press(event) {
    const direction = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const zoom = { "+": 1.3, "=": 1.3, "-": 1 / 1.3 }[event.key];
    if (!direction && !zoom && event.key !== "0" && event.key !== "Enter") return;
    event.preventDefault();
    if (direction) this.stepTo(this.neighbour(direction));
    else if (zoom) this.zoomBy(zoom);
    else if (event.key === "0") this.reset();
    else this.hooks.pick(this.cursor);
  }

  // The node that is met next in a direction: far ones and those off to the side come later.
  neighbour([dx, dy]) {
    const [x, y] = this.points[this.cursor];
    let [best, least] = [this.cursor, Infinity];
    this.points.forEach(([px, py], i) => {
      const [along, aside] = [(px - x) * dx + (py - y) * dy, Math.abs((px - x) * dy) + Math.abs((py - y) * dx)];
      if (along > 0 && along + 2 * aside < least) [best, least] = [i, along + 2 * aside];
    });
    return best;
  }

  stepTo(node) {
    if (!this.nodes[node]) return;
    this.cursor = node;
    this.svg.setAttribute("aria-activedescendant", this.nodes[node].id);
    this.hooks.walk(node);
  }
}

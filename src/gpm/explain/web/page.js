function button(name, text, act) {
  const element = html("button", { type: "button", "aria-label": name, title: name }, text);
  element.addEventListener("click", act);
  return element;
}

// One explanation: its graph, its list and what is shown of them. Pointing wins over keys, keys over what was kept.
class Panel {
  constructor(explanation, id, announce) {
    Object.assign(this, { explanation, announce, pointed: null, walked: null, pinned: null });
    const hooks = (kind) => ({
      point: (i, event) => this.point(i === null ? null : { kind, i }, event),
      walk: (i) => this.set({ pointed: null, walked: i === null ? null : { kind, i } }, i !== null),
      pick: (i) => this.pin(i === null ? null : { kind, i }),
    });
    this.graph = new Graph(explanation.view, id, hooks("node"));
    this.list = new PatternList(explanation, id, hooks("pattern"));
    this.details = html("section", { class: "details", "aria-label": "Details" });
    this.close = button("Let go", "×", () => this.release());
    this.close.className = "close";
    this.summary = summary(explanation, id === "first" ? "h1" : "h2");
    this.element = html("section", { class: "panel", "aria-label": explanation.name },
      html("h2", { class: "name" }, explanation.name),
      html("div", { class: "seen" }, this.drawCanvas(), this.details),
      html("div", { class: "ranking" }, html("h2", {}, "Patterns", this.list.unit), this.list.element),
      trustSection(explanation));
  }

  drawCanvas() {
    const { nodes, hidden } = this.explanation.view;
    const marked = this.graph.marksStart && nodes.some((node) => node.start);
    const legend = [marked && "ringed square: explained", "thicker: counts more", "numbers: steps",
      hidden && `${counted(hidden, "more node")} not drawn`].filter(Boolean);
    const zooms = html("div", { class: "zooms" },
      button("Zoom in", "+", () => this.graph.zoomBy(1.4)),
      button("Zoom out", "−", () => this.graph.zoomBy(1 / 1.4)),
      button("Show all", "⤢", () => this.graph.reset()));
    return html("figure", { class: "canvas" }, this.graph.svg, html("figcaption", {}, factLine(legend, "span"), zooms));
  }

  through(nodes) {
    const wanted = new Set(nodes);
    const { patterns, view } = this.explanation;
    const explained = nodes.some((node) => view.nodes[node].start); // expected patterns are of the explained nodes
    const touches = ({ walk, expected }) => (expected ? explained : walk.some((node) => wanted.has(node)));
    const passes = (pattern, i) => this.list.listed.has(i) && touches(pattern);
    return new Set(patterns.flatMap((pattern, i) => (passes(pattern, i) ? [i] : [])));
  }

  // What comes to lie below a resting mouse, as when the list scrolls, is not pointed at.
  point(what, event) {
    if (event.pointerType === "touch") return;
    const spot = `${event.clientX} ${event.clientY}`;
    if (what && spot === this.spot) return;
    this.spot = spot;
    if (what?.kind !== this.pointed?.kind || what?.i !== this.pointed?.i) this.set({ pointed: what }, false);
  }

  pin(what) {
    const again = what && this.pinned?.kind === what.kind && this.pinned.i === what.i;
    this.set({ pinned: again ? null : what, pointed: null, walked: null }, !again);
    const walk = !again && what?.kind === "pattern" ? this.explanation.patterns[what.i].walk : [];
    this.graph.approach(walk.length ? walk : null); // an expected pattern has none
  }

  release() {
    this.set({ pointed: null, walked: null, pinned: null }, false);
    this.graph.approach(null);
  }

  set(state, aloud) {
    Object.assign(this, state);
    this.show();
    const spoken = (part) => [...part.childNodes].map((child) => child.textContent).join(" ");
    const said = [...this.details.querySelectorAll("h3, .facts > span, .order bdi")].map(spoken);
    if (aloud) this.announce(said.join(", "));
  }

  show() {
    const shown = this.pointed ?? this.walked ?? this.pinned;
    const pinned = this.pinned?.kind === "pattern" ? this.pinned.i : null;
    this.details.classList.toggle("pinned", this.pinned !== null);
    this.graph.ring("pointed", shown?.kind === "node" ? [shown.i] : []);
    if (!shown) {
      this.graph.light([]);
      this.list.mark({ pinned });
      this.details.replaceChildren(...idleDetails(this.explanation));
    } else if (shown.kind === "pattern") this.showPattern(shown.i, pinned);
    else this.showNode(shown.i, pinned);
  }

  showPattern(i, pinned) {
    const { walk, edges, area } = this.explanation.patterns[i];
    const near = new Set(area); // what an expected pattern reads
    const among = this.explanation.view.edges.filter(({ source, target }) => near.has(source) && near.has(target));
    const pairs = walk.length ? edges : among.map(({ source, target }) => [source, target]);
    this.graph.light(walk.length ? new Set(walk) : near, pairs, walk);
    this.list.mark({ shown: i, pinned });
    this.details.replaceChildren(this.close, ...patternDetails(this.explanation, i, this.list.rankOf(i)));
  }

  showNode(node, pinned) {
    const through = this.through([node]);
    const patterns = [...through].map((i) => this.explanation.patterns[i]);
    this.graph.light(new Set([node, ...patterns.flatMap((p) => p.walk)]), patterns.flatMap((p) => p.edges));
    this.list.mark({ pinned, through });
    const rankOf = (i) => this.list.rankOf(i);
    this.details.replaceChildren(this.close, ...nodeDetails(this.explanation, node, through, rankOf));
  }

  // Light the nodes whose name holds the text, exact names first, and keep the patterns through them.
  search(text) {
    const wanted = text.trim().toLowerCase();
    const names = this.explanation.view.nodes.map((node) => node.name.toLowerCase());
    const found = wanted ? names.flatMap((name, i) => (name.includes(wanted) ? [i] : [])) : [];
    found.sort((a, b) => Number(names[b] === wanted) - Number(names[a] === wanted) || a - b);
    const kept = found.length ? this.through(found) : null;
    this.graph.ring("found", found);
    this.graph.svg.classList.toggle("searching", found.length > 0);
    this.list.filter(kept);
    return { found, patterns: kept?.size ?? 0 };
  }
}

const [instance, compare, chosen, sort, search] = ["instance", "compare", "class", "sort", "search"].map(byId);
const explanations = JSON.parse(byId("data").textContent);
const announce = (text) => { byId("announced").textContent = text; };
const option = (value, text) => html("option", { value, title: text }, shorten(text, 48));
let panels = [];

function offerClasses(explanation) {
  const { classes, answers } = explanation;
  const order = classes.map((_, i) => i).sort((a, b) => answers[b] - answers[a]);
  const offers = order.map((i) => option(i, `${classes[i]} (${answerText(explanation, answers[i])})`));
  chosen.replaceChildren(option("", "as predicted"), ...offers);
  byId("class-tool").hidden = classes.length < 2;
}

function arrange() {
  const name = chosen.value === "" ? null : panels[0].explanation.classes[chosen.value];
  for (const panel of panels) {
    const place = panel.explanation.classes.indexOf(name);
    Object.assign(panel.list, { sort: sort.value, chosen: place < 0 ? null : place });
    panel.list.arrange();
    if (panel.pinned?.kind === "pattern" && !panel.list.listed.has(panel.pinned.i)) panel.release();
    panel.show();
  }
  lookFor();
}

function lookFor() {
  const results = panels.map((panel) => panel.search(search.value));
  const [nodes, patterns] = [results.flatMap((r) => r.found).length, results.reduce((sum, r) => sum + r.patterns, 0)];
  const wanted = search.value.trim();
  const told = `${counted(nodes, "node")}, in ${counted(patterns, "pattern")}`;
  byId("found").textContent = nodes ? told : wanted && `no node named “${shorten(wanted, 40)}”`;
  return results;
}

function open() {
  const shown = [explanations[instance.value], explanations[compare.value]].filter(Boolean);
  panels = shown.map((explanation, i) => new Panel(explanation, i ? "second" : "first", announce));
  byId("summaries").replaceChildren(...panels.map((panel) => panel.summary));
  byId("panels").replaceChildren(...panels.map((panel) => panel.element));
  document.body.classList.toggle("two", panels.length > 1);
  const labels = shown.map((explanation) => new Set(explanation.patterns.slice(0, explanation.best).map((p) => p.label)));
  if (panels.length > 1) panels.forEach((panel, i) => panel.list.markShared(labels[1 - i]));
  document.title = shown.map((explanation) => explanation.headline).join(" | ");
  offerClasses(shown[0]);
  arrange();
}

function listenToTheme() {
  const [root, theme] = [document.documentElement, byId("theme")];
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.style.colorScheme ? root.style.colorScheme === "dark" : prefersDark.matches);
  const name = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => {
    root.style.colorScheme = isDark() ? "light" : "dark";
    name();
  });
  prefersDark.addEventListener("change", name);
  name();
}

function start() {
  instance.append(...explanations.map((explanation, i) => option(i, explanation.headline)));
  compare.append(option("", "none"), ...explanations.map((explanation, i) => option(i, explanation.headline)));
  for (const tool of ["instance-tool", "compare-tool"]) byId(tool).hidden = explanations.length < 2;
  for (const select of [instance, compare]) select.addEventListener("change", open);
  for (const select of [chosen, sort]) select.addEventListener("change", arrange);
  search.addEventListener("input", lookFor);
  byId("tools").addEventListener("submit", (event) => {
    event.preventDefault();
    lookFor().forEach(({ found }, i) => found.length && panels[i].graph.centre(found[0]));
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && panels.forEach((panel) => panel.release()));
  listenToTheme();
  byId("app").hidden = false;
  open();
}

start();

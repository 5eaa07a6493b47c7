// The ranked patterns: a list box whose rows are built once and then only moved, hidden and marked.
class PatternList {
  constructor(explanation, id, hooks) {
    Object.assign(this, { explanation, hooks, sort: "score", chosen: null, cursor: 0, listed: new Set(), kept: null });
    this.rows = explanation.patterns.map((pattern, i) => this.drawRow(pattern, `${id}-pattern-${i}`, i));
    this.order = this.rows.map((_, i) => i);
    const label = "Patterns: arrow keys move, Enter keeps one, Escape lets go";
    this.element = html("ol", { class: "patterns", role: "listbox", tabindex: 0, "aria-label": label }, ...this.rows);
    this.unit = html("small");
    this.listen();
  }

  drawRow(pattern, id, i) {
    const shape = html("span", { class: "shape", title: pattern.label }, pattern.label);
    const both = html("span", { class: "both", hidden: "" }, "shape in both");
    return html("li", { class: "pattern", id, role: "option", "aria-selected": "false", "data-place": i },
      html("span", { class: "rank" }), thumbnail(this.explanation, pattern),
      html("span", { class: "body" },
        html("span", { class: "line" }, shape, both, html("span", { class: "score" })),
        ...(pattern.expected && pattern.content ? [html("span", { class: "content", title: pattern.content }, pattern.content)] : []),
        html("span", { class: "scale" }), factLine(patternFacts(this.explanation, pattern), "span")));
  }

  value(i) {
    const pattern = this.explanation.patterns[i];
    return (this.chosen === null ? pattern.score : pattern.evidence[this.chosen]) ?? 0;
  }

  // Rank by the score, or by the evidence for the chosen class; then put the rows in the order that was asked for.
  // Patterns that speak for other classes come after the best, and are listed when such a class is chosen.
  arrange() {
    const { patterns, best } = this.explanation;
    const offered = patterns.map((_, i) => i).filter((i) => this.chosen !== null || i < best);
    const ranked = offered.sort((a, b) => this.value(b) - this.value(a) || a - b).slice(0, best);
    this.listed = new Set(ranked);
    this.hide();
    const spread = (i) => (this.chosen === null ? patterns[i].spread ?? 0 : 0);
    const high = Math.max(0, ...ranked.map((i) => this.value(i) + spread(i)));
    const low = Math.min(0, ...ranked.filter((i) => this.value(i) < 0).map((i) => this.value(i) - spread(i)));
    const say = inColumn(ranked.map((i) => this.value(i)));
    const chosen = this.chosen === null ? "score ± spread" : `evidence for ${this.explanation.classes[this.chosen]}`;
    this.unit.textContent = chosen;
    ranked.forEach((i, rank) => {
      const [row, value] = [this.rows[i], this.value(i)];
      row.querySelector(".rank").textContent = rank + 1;
      row.querySelector(".scale").replaceChildren(bar(value, spread(i), low, high));
      const apart = this.chosen === null ? [html("small", {}, ` ± ${say(spread(i))}`)] : [];
      row.querySelector(".score").replaceChildren((this.chosen === null ? "" : plus(value)) + say(value), ...apart);
    });
    const by = {
      score: () => 0,
      shape: (a, b) => (patterns[a].label < patterns[b].label ? -1 : Number(patterns[a].label > patterns[b].label)),
      scale: (a, b) => patterns[a].scale - patterns[b].scale,
      count: (a, b) => patterns[b].count - patterns[a].count,
    }[this.sort];
    this.order = ranked.sort(by);
    const unlisted = this.rows.filter((_, i) => !this.listed.has(i));
    this.element.append(...this.order.map((i) => this.rows[i]), ...unlisted);
  }

  rankOf(i) {
    return this.rows[i].querySelector(".rank").textContent;
  }

  // Keep only some patterns; null keeps all.
  filter(kept) {
    this.kept = kept;
    this.hide();
  }

  hide() {
    this.cursor = 0;
    this.rows.forEach((row, i) => { row.hidden = !this.listed.has(i) || (this.kept !== null && !this.kept.has(i)); });
  }

  mark({ shown = null, pinned = null, through = null }) {
    this.rows.forEach((row, i) => {
      row.classList.toggle("shown", i === shown);
      row.classList.toggle("faint", through !== null && !through.has(i));
      row.setAttribute("aria-selected", String(i === pinned));
    });
  }

  markShared(labels) {
    const { patterns } = this.explanation;
    this.rows.forEach((row, i) => { row.querySelector(".both").hidden = !labels.has(patterns[i].label); });
  }

  listen() {
    const placeOf = (event) => {
      const row = event.target.closest(".pattern");
      return row ? Number(row.dataset.place) : null;
    };
    this.element.addEventListener("pointermove", (event) => this.hooks.point(placeOf(event), event));
    this.element.addEventListener("pointerleave", (event) => this.hooks.point(null, event));
    this.element.addEventListener("click", (event) => {
      if (placeOf(event) === null) return;
      this.cursor = this.visible().indexOf(placeOf(event));
      this.hooks.pick(placeOf(event));
      this.rows[placeOf(event)].scrollIntoView({ block: "nearest" });
    });
    this.element.addEventListener("focus", () => this.element.matches(":focus-visible") && this.stepTo(this.cursor));
    this.element.addEventListener("blur", () => this.hooks.walk(null));
    this.element.addEventListener("keydown", (event) => this.press(event));
  }

  visible() {
    return this.order.filter((i) => !this.rows[i].hidden);
  }

  press(event) {
    const to = { ArrowDown: this.cursor + 1, ArrowUp: this.cursor - 1, Home: 0, End: Infinity }[event.key];
    if (to === undefined && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (to !== undefined) this.stepTo(to);
    else if (this.visible().length) this.hooks.pick(this.visible()[this.cursor]);
  }

  stepTo(position) {
    const visible = this.visible();
    if (!visible.length) return;
    this.cursor = clamp(position, 0, visible.length - 1);
    const row = this.rows[visible[this.cursor]];
    this.element.setAttribute("aria-activedescendant", row.id);
    row.scrollIntoView({ block: "nearest" });
    this.hooks.walk(visible[this.cursor]);
  }
}

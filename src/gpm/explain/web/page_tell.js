// What is said of a pattern, a node, an answer, and of how far to believe them.
const titled = (tag, text) => html(tag, { title: text }, text);
const factLine = (texts, tag = "p") => html(tag, { class: "facts" }, ...texts.map((text) => titled("span", text)));
const heading = (text) => html("th", { scope: "row", title: text }, text);
const measured = (text) => html("td", { class: "number" }, text);
const tabled = (name, caption, rows) => html("table", { class: name }, html("caption", {}, caption), ...rows);
const barRow = (name, drawn, text) =>
  html("tr", {}, heading(name), html("td", { class: "wide" }, drawn), measured(text));
const featureText = (node) => node.features.map(([name, value]) => `${name} ${number(value)}`).join(" · ");

const MOST_CLASSES = 8;
const HINTS = [
  "Point at a pattern, or walk the list with the arrow keys, to see its order, its nodes and its evidence.",
  "A click or Enter keeps it, Escape lets go.",
  "Point at a node to see the patterns through it.",
];

function evidenceTable({ classes, kind }, { evidence }) {
  const most = Math.max(...evidence.map((e) => Math.abs(e ?? 0)), 1e-12);
  const say = inColumn(evidence);
  let order = classes.map((_, i) => i);
  if (order.length > MOST_CLASSES) {
    order = order.sort((a, b) => Math.abs(evidence[b]) - Math.abs(evidence[a])).slice(0, MOST_CLASSES);
  }
  const drawn = (i) => bar(evidence[i] ?? 0, 0, -most, most);
  const rows = order.map((i) => barRow(classes[i], drawn(i), plus(evidence[i]) + say(evidence[i])));
  return tabled("evidence", kind === "value" ? "What it adds" : "Evidence (log-odds)", rows);
}

// What an expected pattern holds: its columns that count the most, against the average of the training split.
function expectedDetails(explanation, pattern, rank) {
  const say = inColumn([pattern.score]);
  const head = ["column", "here", "average", "adds"].map((text) => html("th", { scope: "col" }, text));
  const adds = inColumn(pattern.columns.map((column) => column.evidence));
  const rows = pattern.columns.map(({ name, value, average, evidence }) => html("tr", {},
    heading(name), measured(number(value)), measured(number(average)), measured(plus(evidence) + adds(evidence))));
  const table = rows.length ? [tabled("features", "Columns that count most", [html("tr", {}, ...head), ...rows])] : [];
  return [
    html("h3", {}, html("span", { class: "rank" }, rank), pattern.label),
    factLine([`score ${say(pattern.score)} ± ${say(pattern.spread)}`, ...patternFacts(explanation, pattern)]),
    html("p", { class: "content" }, pattern.content),
    html("div", { class: "columns" }, evidenceTable(explanation, pattern), ...table),
  ];
}

function patternDetails(explanation, i, rank) {
  if (explanation.patterns[i].expected) return expectedDetails(explanation, explanation.patterns[i], rank);
  const [pattern, { nodes, atoms }] = [explanation.patterns[i], explanation.view];
  const say = inColumn([pattern.score]);
  const kind = (node) => (atoms ? [html("small", {}, nodes[node].kind)] : []);
  const order = pattern.walk.map((node, step) =>
    html("li", {}, html("b", {}, step), html("bdi", {}, pattern.names[step]), ...kind(node)));
  const rows = [...stepsOf(pattern.walk)].map(([node, steps]) => {
    const about = [nodes[node].kind, featureText(nodes[node])].filter(Boolean).join(" · ");
    return html("tr", {}, measured(steps.join("·")), heading(nodes[node].name), html("td", {}, about));
  });
  return [
    html("h3", {}, html("span", { class: "rank" }, rank), pattern.label),
    factLine([`score ${say(pattern.score)} ± ${say(pattern.spread)}`, ...patternFacts(explanation, pattern)]),
    html("ol", { class: "order", "aria-label": "Order of the walk" }, ...order),
    html("div", { class: "columns" }, evidenceTable(explanation, pattern), tabled("features", "Nodes on it", rows)),
  ];
}

function nodeDetails(explanation, node, through, rankOf) {
  const { name, kind, start, features } = explanation.view.nodes[node];
  const explained = start && explanation.level !== "graph" ? "explained" : "";
  const lines = [...through].map((i) => html("li", {}, html("b", {}, rankOf(i)), explanation.patterns[i].label));
  const rows = features.map(([feature, value]) => html("tr", {}, heading(feature), measured(number(value))));
  return [
    html("h3", {}, html("bdi", {}, name)),
    factLine([explained, kind, `in ${counted(through.size, "pattern")}`].filter(Boolean)),
    html("ul", { class: "order plain" }, ...lines),
    html("div", { class: "columns" }, ...(rows.length ? [tabled("features", "Features", rows)] : [])),
  ];
}

// Before anything is pointed at: all answers of the model, and what can be done.
function idleDetails({ kind, classes, answers }) {
  const hint = html("div", { class: "hint" }, ...HINTS.map((text) => html("p", {}, text)));
  if (kind === "value") return [hint];
  const order = classes.map((_, i) => i).sort((a, b) => answers[b] - answers[a]).slice(0, 6);
  const rows = order.map((i) => barRow(classes[i], bar(answers[i] ?? 0, 0, 0, 1), percent(answers[i])));
  return [html("div", { class: "columns" }, tabled("evidence", "What the model says", rows), hint)];
}

// One sentence for each way to test the patterns; an empty one where there is nothing to tell.
function trustSentences(explanation) {
  const { trust, answers, target } = explanation;
  const { insertion, edges } = trust;
  const say = (value) => answerText(explanation, value);
  const what = explanation.kind === "value" ? "value" : "probability";
  const [answer, left, byChance] = [answers[target], answers[target] - trust.drop, answers[target] - trust.random_drop];
  const verb = left < answer ? "falls" : left > answer ? "rises" : "goes";
  const tenth = insertion.share.findIndex((share) => share >= 0.0999);
  const last = edges.share.length - 1;
  return {
    deletion: trust.drop === null || trust.random_drop === null ? ""
      : `Without the best tenth of the patterns the ${what} ${verb} from ${say(answer)} to ${say(left)}; `
        + `without random walks, as many of every length, to ${say(byChance)}.`,
    insertion: tenth < 0 ? ""
      : `With nothing but the best ${Math.round(100 * insertion.share[tenth])}% of the patterns the ${what} is `
        + `${say(insertion.top[tenth])}; with random walks ${say(insertion.random[tenth])}.`,
    edges: last < 0 ? ""
      : `When walks may not cross the edges of the best ${counted(edges.share[last], "pattern")}, the ${what} is `
        + `${say(edges.top[last])}; for random patterns ${say(edges.random[last])}.`,
  };
}

function trustSection(explanation) {
  const { trust } = explanation;
  const sentences = trustSentences(explanation);
  const share = (v) => `${Math.round(100 * v)}%`;
  const figures = [
    ["deletion", "Left out", "patterns left out", share],
    ["insertion", "Put in", "patterns put in", share],
    ["edges", "Edges forbidden", "patterns whose edges are forbidden", number],
  ].filter(([which]) => trust[which].share.length > 1).map(([which, title, xTitle, xText]) => html("figure", {},
    html("h3", {}, title),
    chart(trust[which], explanation.kind === "value", xTitle, xText, `${title}. ${sentences[which]}`),
    html("figcaption", {}, sentences[which])));
  const stable = trust.stability === null || trust.overlap === null
    ? "How stable the patterns are is not known."
    : `Drawn again ${trust.draws} times, ${Math.round(100 * trust.overlap)}% of the best patterns of two draws are the same, `
      + `mean cosine of their scores ${trust.stability.toFixed(2)}.`;
  return html("section", { class: "trust" }, html("h2", {}, "How far to believe it"), html("p", {}, stable),
    html("div", { class: "charts" }, ...figures));
}

function summary(explanation, level) {
  const { name, headline, kind, truth, classes, answers, predicted } = explanation;
  const says = classes[predicted ?? answers.indexOf(Math.max(...answers))];
  const verdict = kind !== "classes" && kind !== "link" ? "" : truth === says ? " ✓" : ` ✗ predicted ${says}`;
  const facts = [
    ["data", explanation.data],
    ["known answer", truth && truth + verdict],
    ["scores by", explanation.method],
    ["walks", explanation.walks.toLocaleString("en")],
    ["patterns", `${explanation.found.toLocaleString("en")}, best ${explanation.best} shown`],
    ["seed", String(explanation.seed)],
  ].filter(([, value]) => value);
  const listed = facts.map(([fact, value]) => html("div", {}, html("dt", {}, fact), titled("dd", value)));
  const { word, reason, rule } = explanation.strength;
  return html("section", { class: "summary" },
    html(level, { title: headline }, html("span", { class: "what" }, name), headline.slice(name.length)),
    html("p", { class: "verdict" }, html("span", { class: `strength ${word}`, title: rule }, `${word} evidence`), reason),
    html("dl", {}, ...listed));
}

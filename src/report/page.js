// SPDX-License-Identifier: Apache-2.0
// The table of parameters. Only the rows that can be seen are elements of the page.
(() => {
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const count = data.name.length;
const ROW = 34;
const SPARE = 12; // rows drawn beyond what is seen, so that scrolling shows no gaps

function humanBytes(bytes) {
  if (bytes < 1024) return bytes + " B";
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let value = bytes / 1024, unit = 0;
  while (value >= 1023.95 && unit + 1 < units.length) { value /= 1024; ++unit; }
  return value.toFixed(1) + " " + units[unit];
}
const text = (list, column) => (i) => data[list][data[column][i]];
const columns = {
  name: (i) => data.name[i],
  type: text("types", "type"),
  shape: text("shapes", "shape"),
  source: text("cuts", "source"),
  target: text("cuts", "target"),
  size: (i) => data.size[i],
  ranks: (i) => data.rank_lists[data.kind[i]],
};
const order = ["name", "type", "shape", "source", "target", "size", "ranks"];
const haystack = data.name.map((name, i) =>
  (name + " " + columns.type(i) + " " + columns.shape(i)).toLowerCase());

let sorted = data.name.map((_, i) => i);
let shown = sorted;
let sorting = { column: "", ascending: true };
const box = byId("rows"), body = byId("body"), search = byId("search");

function cell(content, style) {
  const td = document.createElement("td");
  td.textContent = content;
  td.title = content;
  if (style) td.className = style;
  return td;
}
function gap(height) {
  const row = document.createElement("tr");
  row.className = "gap";
  row.setAttribute("aria-hidden", "true");
  const td = document.createElement("td");
  td.colSpan = order.length;
  td.style.height = height + "px";
  row.append(td);
  return row;
}
function rowOf(i, position) {
  const row = document.createElement("tr");
  row.setAttribute("aria-rowindex", position + 2);
  const first = document.createElement("td");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "name";
  button.textContent = data.name[i];
  button.title = data.name[i];
  button.dataset.parameter = i;
  first.append(button);
  const size = cell(humanBytes(data.size[i]), "right");
  size.title = data.size[i] + " bytes";
  row.append(first, cell(columns.type(i)), cell(columns.shape(i), "mono"), cell(columns.source(i)),
             cell(columns.target(i)), size, cell(columns.ranks(i)));
  return row;
}
let drawnFrom = -1, drawnTo = -1;
function draw(force) {
  const from = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE);
  const to = Math.min(shown.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + SPARE);
  if (!force && from === drawnFrom && to === drawnTo) return;
  const focused = document.activeElement && document.activeElement.dataset.parameter;
  drawnFrom = from;
  drawnTo = to;
  const rows = [gap(from * ROW)];
  for (let position = from; position < to; ++position) rows.push(rowOf(shown[position], position));
  rows.push(gap((shown.length - to) * ROW));
  body.replaceChildren(...rows);
  if (focused === undefined || focused === null) return;
  const again = body.querySelector(`button[data-parameter="${Number(focused)}"]`);
  if (again) again.focus({ preventScroll: true });
}
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  shown = words.length ? sorted.filter((i) => words.every((word) => haystack[i].includes(word)))
                       : sorted;
  byId("count").textContent = shown.length === count
    ? count.toLocaleString("en") + (count === 1 ? " parameter" : " parameters")
    : shown.length.toLocaleString("en") + " of " + count.toLocaleString("en");
  byId("table").setAttribute("aria-rowcount", shown.length + 1);
  box.scrollTop = 0;
  draw(true);
}
const collator = new Intl.Collator("en", { numeric: true });
function sort(column) {
  // Once, the other way round, and back to the order in the checkpoint.
  if (sorting.column !== column) sorting = { column, ascending: column !== "size" };
  else if (sorting.ascending === (column !== "size")) sorting.ascending = !sorting.ascending;
  else sorting = { column: "", ascending: true };
  sorted = data.name.map((_, i) => i);
  if (sorting.column) {
    const value = columns[column];
    const sign = sorting.ascending ? 1 : -1;
    const compare = column === "size" ? (a, b) => value(a) - value(b)
                                      : (a, b) => collator.compare(value(a), value(b));
    sorted.sort((a, b) => sign * compare(a, b) || a - b);
  }
  for (const head of document.querySelectorAll("#table th")) {
    if (head.dataset.column !== sorting.column) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", sorting.ascending ? "ascending" : "descending");
  }
  filter();
}
function show(i) {
  const dialog = byId("details"), facts = byId("parameter-facts");
  byId("parameter-name").textContent = data.name[i];
  const lines = [
    ["Type", columns.type(i)], ["Full shape", columns.shape(i)],
    ["Size", humanBytes(data.size[i]) + " (" + data.size[i].toLocaleString("en") + " bytes)"],
    ["In the source", columns.source(i) + " \u2014 " + data.layouts[data.source_layout[i]]],
    ["In the destination", columns.target(i) + " \u2014 " + data.layouts[data.target_layout[i]]],
    ["Read from source ranks", columns.ranks(i) || "none"],
  ];
  facts.replaceChildren(...lines.flatMap(([term, value]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = term;
    dd.textContent = value;
    return [dt, dd];
  }));
  const picture = document.querySelector(`#kind-${data.kind[i]} svg`);
  const place = byId("parameter-picture");
  place.replaceChildren();
  if (picture) {
    place.append(picture.cloneNode(true));
    const example = data.name[data.example[data.kind[i]]];
    byId("picture-note").textContent =
      example === data.name[i] ? "" : "The picture is that of " + example + ", which is cut and read alike.";
  } else {
    byId("picture-note").textContent = "'reshardfs plan --svg FILE --param NAME' draws its slices.";
  }
  dialog.showModal();
}

box.addEventListener("scroll", () => requestAnimationFrame(() => draw(false)), { passive: true });
new ResizeObserver(() => draw(false)).observe(box);
search.addEventListener("input", filter);
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") { box.focus(); event.preventDefault(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target instanceof HTMLInputElement || byId("details").open) return;
  search.focus();
  event.preventDefault();
});
for (const head of document.querySelectorAll("#table th")) {
  head.querySelector("button").addEventListener("click", () => sort(head.dataset.column));
}
body.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) show(Number(button.dataset.parameter));
});
byId("close").addEventListener("click", () => byId("details").close());
filter();
})();

// SPDX-License-Identifier: Apache-2.0
// The table of parameters, and the dialog on one of them. Rows are elements of the page, so that the
// browser's own search finds them; of very many only those that can be seen.
(() => {
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const count = data.name.length;
const MOST_ROWS = 5000; // that are elements at once; page.cpp names the number, too
const MOST_PARTS = 512; // in words
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
// A name that may go on in the next line behind each of its dots.
function breakable(name) {
  return name.split(/(?<=\.)/).flatMap((part) => [part, document.createElement("wbr")]).slice(0, -1);
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
  button.append(...breakable(data.name[i]));
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
const isWhole = () => shown.length <= MOST_ROWS;
function draw(force) {
  let from = 0, to = shown.length;
  if (!isWhole()) {
    from = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE);
    to = Math.min(shown.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + SPARE);
  }
  if (!force && from === drawnFrom && to === drawnTo) return;
  const focused = document.activeElement && document.activeElement.dataset.parameter;
  drawnFrom = from;
  drawnTo = to;
  const rows = [];
  for (let position = from; position < to; ++position) rows.push(rowOf(shown[position], position));
  if (!isWhole()) {
    rows.unshift(gap(from * ROW));
    rows.push(gap((shown.length - to) * ROW));
  }
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
  byId("table").classList.toggle("whole", isWhole());
  byId("find-note").hidden = isWhole();
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
// A copy of what is in the page, or in a template.
function picture(original) {
  const copy = document.createElement("div");
  copy.className = "fitted";
  copy.append(...(original.content || original).cloneNode(true).childNodes);
  return copy;
}
// A picture in words, for those who cannot see it: of its parts' titles.
function words(target) {
  const titles = target.querySelectorAll("rect title");
  const form = /^(.*?) ?target ranks? (.*?) \u2190 (?:source rank )?(.*)$/s;
  const parts = Array.from(titles, (title) => title.textContent.match(form));
  const ranks = [...new Set(parts.filter(Boolean).map((part) => part[2]))];
  const sorted = ranks.flatMap((of) => parts.filter((part) => part && part[2] === of));
  const body = document.createElement("tbody");
  for (const [, place, of, source] of sorted.slice(0, MOST_PARTS)) {
    const row = document.createElement("tr");
    row.append(cell(of), cell(place, "mono"), cell(source));
    body.append(row);
  }
  const made = byId("words").content.cloneNode(true);
  made.querySelector("table").append(body);
  if (sorted.length <= MOST_PARTS) made.querySelector("p").remove();
  return made;
}
function cut(words, layout) {
  const text = data.layouts[layout];
  return text === "no layout" ? words : words + " \u2014 " + text;
}
function show(i) {
  const dialog = byId("details"), facts = byId("parameter-facts");
  byId("parameter-name").replaceChildren(...breakable(data.name[i]));
  const lines = [
    ["Type", columns.type(i)], ["Full shape", columns.shape(i)],
    ["Size", humanBytes(data.size[i]) + " (" + data.size[i].toLocaleString("en") + " bytes)"],
    ["Source", cut(columns.source(i), data.source_layout[i])],
    ["Target", cut(columns.target(i), data.target_layout[i])],
    ["Source ranks read", columns.ranks(i) || "none"],
  ];
  facts.replaceChildren(...lines.flatMap(([term, value]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = term;
    dd.textContent = value;
    return [dt, dd];
  }));
  const place = byId("parameter-pictures"), note = byId("picture-note");
  const number = data.slices_of[data.kind[i]];
  const sides = (number < 0 ? [] : ["source-", "target-"]).map((side) => picture(byId(side + number)));
  place.replaceChildren(...sides, ...sides.slice(1).map(words));
  const example = data.name[data.example[data.kind[i]]];
  const isMade = place.textContent.includes("joined by the map");
  const borrowed = number >= 0 && example !== data.name[i] && isMade;
  note.textContent = borrowed ? "Drawn for " + example + ", which is cut and read alike."
    : number < 0 ? "This page has no picture of it. 'reshardfs plan --svg FILE --param NAME' draws its slices." : "";
  dialog.showModal();
}

// Tells where something lies beyond the right edge; such a box is reached with the keyboard, too.
function mark(scroll) {
  const pan = scroll.querySelector(".pan");
  const beyond = pan.scrollWidth - pan.clientWidth;
  scroll.classList.toggle("overflows", beyond > 1);
  scroll.classList.toggle("more", beyond - pan.scrollLeft > 1);
  if (beyond > 1) pan.tabIndex = 0;
}
const sizes = new ResizeObserver((entries) => {
  for (const entry of entries) mark(entry.target.closest(".scroll"));
});
function watch(scroll) {
  const pan = scroll.querySelector(".pan");
  sizes.observe(pan);
  pan.addEventListener("scroll", () => mark(scroll), { passive: true });
}
for (const scroll of document.querySelectorAll("main .scroll")) watch(scroll);

box.addEventListener("scroll", () => requestAnimationFrame(() => draw(false)), { passive: true });
new ResizeObserver(() => draw(false)).observe(box);
search.addEventListener("input", filter);
search.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown") return;
  const first = body.querySelector("button");
  if (first) first.focus();
  event.preventDefault();
});
// Arrow keys go from row to row; Tab would take one press for each of thousands.
body.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const row = event.target.closest("tr");
  const next = event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
  const button = next && next.querySelector("button");
  if (button) button.focus();
  else if (event.key === "ArrowUp") search.focus();
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof HTMLInputElement || byId("details").open) return;
  search.focus();
  event.preventDefault();
});
for (const head of document.querySelectorAll("#table th")) {
  head.querySelector("button").addEventListener("click", () => sort(head.dataset.column));
}
document.querySelector("main").addEventListener("click", (event) => {
  const button = event.target.closest("button[data-parameter]");
  if (button) return show(Number(button.dataset.parameter));
  const row = event.target.closest("#body tr:not(.gap)");
  // A text that is being marked is no click.
  if (row && String(getSelection()) === "") show(Number(row.querySelector("button").dataset.parameter));
});
byId("close").addEventListener("click", () => byId("details").close());
byId("details").addEventListener("click", (event) => {
  if (event.target !== byId("details")) return;
  const own = byId("details").getBoundingClientRect();
  const inside = event.clientX >= own.left && event.clientX <= own.right &&
                 event.clientY >= own.top && event.clientY <= own.bottom;
  if (!inside) byId("details").close();
});
filter();
})();

// SPDX-License-Identifier: Apache-2.0
// Draws the slices of one parameter as pictures of its source and its target, from "maps" of the
// page's data (page_maps.cpp).
const drawSlices = (() => {
"use strict";
const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 360, HEIGHT = 320, LEAST = 96, BAR = 56, AXIS = 22, TOP = 20, ROW = 11, MOST = 640;
const LETTER = 6.3; // of the font of 11 pixels

function element(name, attributes, content) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (content !== undefined) made.textContent = content;
  return made;
}
const widthOf = (text) => LETTER * text.length;
const rankWords = (ranks) => (/[-,]/.test(ranks) ? "ranks " : "rank ") + ranks;

// Neighbours with one part of a side, as one: [begin, end, part].
function stretches(list, side) {
  const out = [];
  let begin = 0;
  for (const stretch of list) {
    const part = stretch[side];
    if (out.length && out[out.length - 1][2] === part) out[out.length - 1][1] = stretch[0];
    else out.push([begin, stretch[0], part]);
    begin = stretch[0];
  }
  return out;
}
// What lies at the parts of a row and a column.
function byParts(list) {
  const found = new Map(list.map(([row, column, value]) => [row + " " + column, value]));
  return (row, column) => found.get(row + " " + column);
}
function where(map, dimensions, row, column) {
  if (map.raw || !dimensions) return "";
  const texts = [];
  for (let d = 0; d < dimensions; ++d) {
    const shown = d === map.dimensions[0] ? row : d === map.dimensions[1] ? column : null;
    texts.push(shown ? shown[0] + ":" + shown[1] : ":");
  }
  return "[" + texts.join(", ") + "]";
}
function sizeOf(map, rows) {
  if (map.dimensions[0] < 0) return [WIDTH - AXIS, BAR];
  const ratio = map.rows[map.rows.length - 1][0] / map.columns[map.columns.length - 1][0];
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  const width = clamp(HEIGHT / ratio, LEAST * 1.5, WIDTH - AXIS);
  return [width, Math.max(clamp(width * ratio, LEAST, HEIGHT), Math.min(rows * 18, HEIGHT), rows * ROW > MOST ? 0 : rows * ROW)];
}
function label(svg, box, text, place, ink) {
  const attributes = { fill: ink, x: box.x + box.width / 2, y: box.y + box.height / 2 + 4,
                       "text-anchor": "middle" };
  if (place === "top") Object.assign(attributes, { x: box.x + 5, y: box.y + Math.min(15, box.height / 2 + 4),
                                                   "text-anchor": "start", "font-weight": 700 });
  if (place === "right") Object.assign(attributes, { x: box.x + box.width - 4, "text-anchor": "end" });
  if (place === "low") attributes.y = box.y + Math.max(box.height / 2 + 4, 30);
  if (box.height < 12) Object.assign(attributes, { "font-size": 9, y: box.y + box.height / 2 + 3 });
  svg.append(element("text", attributes, text));
}
// One side: 1 is the target, 2 the source.
function plot(map, shape, side, title) {
  const rows = side === 2 ? stretches(map.rows, 2) : map.rows.map((r, i) => [i ? map.rows[i - 1][0] : 0, r[0], r[2], r[1]]);
  const columns = side === 2 ? stretches(map.columns, 2) : map.columns.map((c, i) => [i ? map.columns[i - 1][0] : 0, c[0], c[2], c[1]]);
  const [width, height] = sizeOf(map, rows.length);
  const left = map.dimensions[0] < 0 ? 1 : AXIS;
  const svg = element("svg", { xmlns: SPACE, class: "pic", role: "img", "aria-label": title, width: left + width + 2,
    height: TOP + height + 2, viewBox: `0 0 ${left + width + 2} ${TOP + height + 2}`, "font-size": 11, "font-family": "system-ui,sans-serif", fill: "#1c2430" });
  const x = (at) => left + width * at / map.columns[map.columns.length - 1][0];
  const y = (at) => TOP + height * at / map.rows[map.rows.length - 1][0];
  const axis = (d) => map.raw || d < 0 ? "" : "dimension " + d + ": " + shape[d];
  if (axis(map.dimensions[1])) {
    svg.append(element("text", { x: left, y: 13, class: "t q", fill: "#5a6675" }, axis(map.dimensions[1]) + " \u2192"));
  }
  if (axis(map.dimensions[0])) {
    const text = "\u2190 " + axis(map.dimensions[0]), at = TOP + Math.max(widthOf(text), 90);
    svg.append(element("text", { x: 14, y: at, class: "t q", fill: "#5a6675", transform: `rotate(-90 14 ${at})` }, text));
  }
  const from = byParts(map.from), to = byParts(map.to);
  const boxOf = (row, column) => ({ x: x(column[0]), y: y(row[0]), width: x(column[1]) - x(column[0]),
                                    height: y(row[1]) - y(row[0]) });
  const draw = (box, attributes, text) => {
    const rect = element("rect", { ...box, ...attributes });
    if (text) rect.append(element("title", {}, text));
    svg.append(rect);
  };
  // A part that is thinner would be all border.
  const isThin = (list, at) => list.some((s) => at(s[1]) - at(s[0]) < 6);
  const border = isThin(rows, y) || isThin(columns, x) ? { "shape-rendering": "crispEdges" } : { stroke: "#fff", "stroke-width": 0.7 };
  const labels = [];
  for (const row of rows) {
    for (const column of columns) {
      const number = from(row[2], column[2]), box = boxOf(row, column);
      const source = number >= 0 ? map.sources[number] : null;
      const ranks = side === 1 ? to(row[3], column[3]) : "";
      const ink = source && source[3] ? "#fff" : "#10151d";
      const named = !source ? "no source file" : map.made ? source[0] : "source rank " + source[0];
      const place = where(map, shape.length, row, column);
      const text = side === 2 ? place + " " + named
        : place + " " + (ranks === undefined ? "no shown rank" : "target " + rankWords(ranks)) + " \u2190 " + named;
      if (!source) draw(box, { class: "miss", fill: "#fff", stroke: "#c0392b", "stroke-dasharray": "4 3" }, text);
      else if (ranks === undefined) draw(box, { class: "z", fill: "#eef1f5" }, text);
      else draw(box, { fill: source[2], ...border }, text);
      if (!source || ranks === undefined || box.height < 9.5) continue;
      labels.push({ box, ink, row, column, ranks, short: source[1],
                    long: (map.made ? "" : side === 2 ? "rank " : "from ") + source[1] });
    }
  }
  if (side === 1) {
    const begins = new Set();
    for (const row of stretches(map.rows, 1)) {
      for (const column of stretches(map.columns, 1)) {
        const box = boxOf(row, column);
        begins.add(row[0] + " " + column[0]);
        if (box.width >= 6 && box.height >= 6) {
          draw(box, { class: "o", fill: "none", stroke: "#10151d", "stroke-width": 1.5, "pointer-events": "none" });
        }
      }
    }
    for (const own of labels) {
      if (!begins.has(own.row[0] + " " + own.column[0]) || own.box.height < 9.5) continue;
      const text = [rankWords(own.ranks), own.ranks].find((t) => widthOf(t) <= own.box.width - 8);
      if (!text) continue;
      label(svg, own.box, text, "top", own.ink);
      own.used = widthOf(text) + 10;
    }
  }
  const room = (own) => own.box.width - (own.box.height < 36 ? own.used || 0 : 0) - 4;
  const words = labels.every((own) => widthOf(own.long) <= room(own));
  for (const own of labels) {
    const text = words ? own.long : own.short;
    if (widthOf(text) <= room(own)) label(svg, own.box, text, side === 2 ? "middle" : own.box.height < 36 ? "right" : own.used ? "low" : "middle", own.ink);
  }
  return svg;
}
function html(name, style, ...content) {
  const made = document.createElement(name);
  if (style) made.className = style;
  made.append(...content);
  return made;
}
// Of very many some, from the first to the last.
function some(list, most) {
  if (list.length <= most) return list;
  return Array.from({ length: most }, (_, i) => list[Math.round(i * (list.length - 1) / (most - 1))]);
}
function legend(map) {
  const all = map.sources, shown = some(all, all.length > 64 ? 32 : 64);
  const list = html("ul", "legend" + (map.made ? " long" : ""));
  for (const [name, short, fill] of shown) {
    const swatch = element("svg", { width: 13, height: 13, "aria-hidden": "true" });
    swatch.append(element("rect", { width: 13, height: 13, fill }));
    list.append(html("li", "", swatch, map.made ? " " + short + " " + name : " " + name));
  }
  const what = map.made ? "Tensors of the source" : "Source ranks";
  const part = shown.length < all.length ? ": " + shown.length + " of " + all.length.toLocaleString("en") : "";
  return html("div", "legends", html("p", "note", what + part), list);
}
// The same in words, for those who cannot see pictures.
function table(map, dimensions) {
  const from = byParts(map.from), rows = [];
  const targets = new Map();
  const each = (list, run) => list.forEach((s, i) => run([i ? list[i - 1][0] : 0, s[0], s[1], s[2]]));
  const ranksAt = byParts(map.to);
  each(map.rows, (row) => each(map.columns, (column) => {
    const ranks = ranksAt(row[2], column[2]);
    if (ranks === undefined) return;
    if (!targets.has(ranks)) targets.set(ranks, []);
    const number = from(row[3], column[3]);
    targets.get(ranks).push([where(map, dimensions, row, column), number >= 0 ? map.sources[number][0] : "none"]);
  }));
  const body = html("tbody");
  let left = 512;
  for (const [ranks, parts] of targets) {
    for (const [place, source] of parts) {
      if (left-- <= 0) break;
      body.append(html("tr", "", html("td", "", ranks), html("td", "mono", place), html("td", "", source)));
    }
  }
  const heads = ["Target ranks", "Elements", map.made ? "Source tensor" : "Source rank"].map((text) => {
    const head = html("th", "", text);
    head.scope = "col";
    return head;
  });
  const made = html("table", "plain", html("thead", "", html("tr", "", ...heads)), body);
  const all = html("details", "words", html("summary", "", "The same as a table"), made);
  if (left < 0) all.append(html("p", "note", "Only the first 512 parts are listed."));
  return all;
}
function figure(title, picture) {
  return html("figure", "", html("figcaption", "", title), html("div", "fitted", picture));
}
// @param shape of the full tensor, as numbers. @return what to show.
return (maps, shape) => maps.flatMap((map) => {
  const source = map.raw ? "one slice for each rank"
    : map.made ? "tensors joined by the map" : map.cut[0];
  const sides = html("div", "sides",
    figure("Source: " + source, plot(map, shape, 2, "Slices of the source")),
    figure("Target: " + (map.raw ? "each rank gets one slice" : map.cut[1]), plot(map, shape, 1, "Slices of the target ranks")));
  const notes = [];
  if (map.hidden.length) notes.push("The pictures show index 0 of dimension " + map.hidden.join(" and ") + ", also cut.");
  if (map.shortened) notes.push("Only the first parts are drawn.");
  return [sides, legend(map), ...notes.map((note) => html("p", "note", note)), table(map, shape.length)];
});
})();

"use strict";
// Draws the picture of the graph and the plot of errors. Boxes are laid out by dagre, one level at a time; d3 draws them.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = { id: -1, boxes: data.picture.boxes };
  const boxes = new Map([[-1, root]]);
  const parents = new Map();
  const opened = new Set([-1]);
  let chosen = null;

  (function enter(parent) {
    for (const box of parent.boxes ?? []) {
      boxes.set(box.id, box);
      parents.set(box.id, parent);
      enter(box);
    }
  })(root);

  // -- arrows: each level has those between its own boxes, and ports for what comes in and goes out ----------

  const levels = new Map();

  function level(box) {
    if (!levels.has(box.id)) levels.set(box.id, { arrows: new Map(), ports: new Map() });
    return levels.get(box.id);
  }

  /** The box and those around it, the outermost first, without the root. */
  function chain(id) {
    const found = [];
    for (let box = boxes.get(id); box !== root; box = parents.get(box.id)) found.unshift(box);
    return found;
  }

  function port(parent, outside, inside, comesIn) {
    const { ports } = level(parent);
    const key = `${comesIn ? "in" : "out"}${comesIn ? outside.id : inside.id}`;
    if (!ports.has(key)) ports.set(key, { key, comesIn, name: outside.name || outside.title, ends: new Map() });
    ports.get(key).ends.set(inside.id, inside);
  }

  for (const [tail, head, type] of data.picture.arrows) {
    const tails = chain(tail), heads = chain(head);
    let depth = 0;
    while (depth < tails.length && depth < heads.length && tails[depth] === heads[depth]) depth++;
    if (depth === tails.length || depth === heads.length) continue; // a box and something in it
    const parent = depth ? tails[depth - 1] : root;
    const key = `${tails[depth].id}>${heads[depth].id}`;
    const { arrows } = level(parent);
    if (!arrows.has(key)) arrows.set(key, { tail: tails[depth], head: heads[depth], types: new Set() });
    arrows.get(key).types.add(type);
    for (let i = depth; i < heads.length - 1; i++) port(heads[i], boxes.get(tail), heads[i + 1], true);
    for (let i = depth; i < tails.length - 1; i++) port(tails[i], boxes.get(head), tails[i + 1], false);
  }

  // -- layout --------------------------------------------------------------------------------------------

  const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  function operators(box, counts = new Map()) {
    for (const inner of box.boxes ?? []) {
      if (!inner.boxes || inner.kind === "flow" || inner.kind === "function") {
        if (inner.kind !== "input" && inner.kind !== "output") counts.set(inner.title, (counts.get(inner.title) ?? 0) + 1);
      }
      operators(inner, counts);
    }
    return counts;
  }

  function subtitle(box) {
    if (box.kind === "input" || box.kind === "output") return box.facts[0][1];
    if (!box.boxes) return box.name.includes("/") ? owner(box) : operation(box);
    const counts = [...operators(box)].sort((a, b) => b[1] - a[1]);
    return counts.map(([name, count]) => (count > 1 ? `${name} ${count}` : name)).join(", ");
  }

  /** What a node outside of all modules was made for, where its operator does not say that: names are `<operation>.<operator>`. */
  function operation(box) {
    const made = box.name.slice(0, Math.max(box.name.lastIndexOf("."), 0));
    return made.slice(made.lastIndexOf(".") + 1) === box.title.toLowerCase() ? "" : made;
  }

  /** What a node is part of, where that is not the box around it. */
  function owner(box) {
    const module = box.name.slice(0, Math.max(box.name.lastIndexOf("/"), 0));
    return module === parents.get(box.id).name ? "" : relative(module, parents.get(box.id));
  }

  /** A name without what it has in common with the name of a box, or of one around that. */
  function relative(name, box) {
    for (let outer = box; outer && outer.name; outer = parents.get(outer.id)) {
      if (name.startsWith(`${outer.name}.`) || name.startsWith(`${outer.name}/`)) return name.slice(outer.name.length + 1);
    }
    return name;
  }

  /** Fixes the places of all boxes of an opened box; returns its size. */
  function layOut(parent) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 24, marginx: 14, marginy: 14 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const box of parent.boxes) graph.setNode(String(box.id), measured(box));
    const { arrows, ports } = level(parent);
    for (const arrow of arrows.values()) graph.setEdge(String(arrow.tail.id), String(arrow.head.id), arrow);
    const shown = merged([...ports.values()], parent);
    for (const one of shown) {
      graph.setNode(one.key, { ...one, width: one.comesIn ? 6 * one.text.length + 14 : 18, height: 16 });
      for (const end of one.ends.values()) {
        if (one.comesIn) graph.setEdge(one.key, String(end.id), { types: new Set() });
        else graph.setEdge(String(end.id), one.key, { types: new Set() });
      }
    }
    dagre.layout(graph);
    return { ...bounds(graph), graph };
  }

  /** The size of what was laid out, moved so that arrows, too, are within it. */
  function bounds(graph) {
    const points = graph.edges().flatMap((edge) => graph.edge(edge).points), margin = 8;
    const shift = Math.max(margin - (d3.min(points, (point) => point.x) ?? margin), 0);
    for (const place of [...points, ...graph.nodes().map((key) => graph.node(key))]) place.x += shift;
    const width = Math.max(graph.graph().width + shift, (d3.max(points, (point) => point.x) ?? 0) + margin, 60);
    return { width, height: Math.max(graph.graph().height, 30) };
  }

  /** At most so many ports that come in, and one that goes out for each box. */
  function merged(ports, parent) {
    const incoming = ports.filter((one) => one.comesIn), outgoing = ports.filter((one) => !one.comesIn);
    for (const one of incoming) one.text = shortened(relative(one.name, parent), 24);
    if (incoming.length <= 6) return [...incoming, ...outgoing];
    const ends = new Map(incoming.flatMap((one) => [...one.ends]));
    return [{ key: "in", comesIn: true, text: `${incoming.length} values`, name: incoming.map((one) => one.name).join("\n"), ends }, ...outgoing];
  }

  function measured(box) {
    const title = shortened(box.title, 34), sub = shortened(subtitle(box), 40);
    if (!opened.has(box.id)) {
      const width = Math.max(title.length * 7.6 + (box.boxes ? 34 : 20), sub.length * 5.7 + 18, 54);
      return { box, title, sub, width, height: sub ? 40 : 27 };
    }
    const inner = layOut(box);
    return { box, title, sub: "", inner, width: Math.max(inner.width, title.length * 8 + 40), height: inner.height + 26 };
  }

  // -- drawing -------------------------------------------------------------------------------------------

  const svg = d3.select("#picture");
  svg.append("defs").append("marker").attr("id", "arrowhead").attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4)
    .attr("markerWidth", 7).attr("markerHeight", 7).attr("orient", "auto").append("path").attr("id", "head").attr("d", "M0,0 L8,4 L0,8 z");
  const canvas = svg.append("g");
  const zoom = d3.zoom().scaleExtent([0.05, 4])
    .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey : !event.button))
    .on("zoom", (event) => canvas.attr("transform", event.transform));
  svg.call(zoom).on("dblclick.zoom", null);
  const curve = d3.line((p) => p.x, (p) => p.y).curve(d3.curveBasis);
  let size = { width: 1, height: 1 };
  const places = new Map(); // id → where its top left corner is in the whole picture

  function draw() {
    canvas.selectAll("*").remove();
    places.clear();
    const whole = layOut(root);
    size = whole;
    drawLevel(canvas, whole, 0, 0);
  }

  function drawLevel(group, layout, left, top) {
    const { graph } = layout;
    for (const edge of graph.edges()) {
      const { points, types } = graph.edge(edge);
      group.append("path").attr("class", "arrow").attr("d", curve(points)).attr("marker-end", "url(#arrowhead)")
        .append("title").text([...types].join("\n"));
    }
    for (const key of graph.nodes()) {
      const node = graph.node(key);
      const x = node.x - node.width / 2, y = node.y - node.height / 2;
      const own = group.append("g").attr("transform", `translate(${x},${y})`);
      if (node.box) drawBox(own, node, left + x, top + y);
      else drawPort(own, node);
    }
  }

  function drawPort(own, node) {
    own.attr("class", "port");
    own.append("rect").attr("width", node.width).attr("height", node.height).attr("rx", 8);
    own.append("text").attr("x", node.width / 2).attr("y", 12).text(node.comesIn ? node.text : "↓");
    own.append("title").text(`${node.comesIn ? "from" : "to"} ${node.name}`);
  }

  function drawBox(own, node, left, top) {
    const { box, width, height } = node, isOpen = Boolean(node.inner);
    places.set(box.id, { left, top, width, height });
    own.attr("class", `box ${box.kind}${isOpen ? " is-open" : ""}${box === chosen ? " is-chosen" : ""}`)
      .attr("tabindex", 0).attr("role", "button").attr("data-id", box.id)
      .attr("aria-label", `${box.title} ${box.name}${box.boxes ? `, ${operatorCount(box)} nodes` : ""}`)
      .on("click", (event) => { event.stopPropagation(); press(box); })
      .on("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        press(box);
      });
    if (box.boxes) own.attr("aria-expanded", isOpen);
    const isPill = box.kind === "input" || box.kind === "output";
    own.append("rect").attr("width", width).attr("height", height).attr("rx", isPill ? 14 : 6);
    const mark = box.boxes ? (isOpen ? "− " : "+ ") : "";
    own.append("text").attr("class", "title").attr("x", isOpen ? 10 : width / 2).attr("y", 18).text(mark + node.title);
    if (node.sub) own.append("text").attr("class", "sub").attr("x", width / 2).attr("y", 33).text(node.sub);
    if (isOpen) {
      const x = (width - node.inner.width) / 2;
      drawLevel(own.append("g").attr("transform", `translate(${x},24)`), node.inner, left + x, top + 24);
    }
  }

  const operatorCount = (box) => d3.sum(operators(box).values());

  // -- what a person does ------------------------------------------------------------------------------------

  /** Shows what a box holds; one with boxes in it opens or closes, and stays where it is. */
  function press(box) {
    chosen = box;
    describe(box);
    const before = places.get(box.id);
    if (box.boxes) opened.has(box.id) ? opened.delete(box.id) : opened.add(box.id);
    draw();
    const after = places.get(box.id), { x, y, k } = d3.zoomTransform(svg.node());
    const middle = (place) => place.left + place.width / 2;
    moveTo(d3.zoomIdentity.translate(x + (middle(before) - middle(after)) * k, y + (before.top - after.top) * k).scale(k));
    svg.select(`[data-id="${box.id}"]`).node().focus({ preventScroll: true });
  }

  function describe(box) {
    const panel = d3.select("#chosen").html("");
    panel.append("h3").text(box.title);
    if (box.name && box.name !== box.title) panel.append("p").text(box.name);
    if (box.boxes) panel.append("p").text(`${operatorCount(box)} nodes: ${subtitle(box)}`);
    const list = panel.append("dl");
    for (const [name, text] of box.facts ?? []) {
      list.append("dt").text(name);
      list.append("dd").text(text);
    }
  }

  const moveTo = (transform) => svg.call(zoom.transform, transform);

  function fit(least) {
    const { width, height } = svg.node().getBoundingClientRect();
    const scale = Math.min(1, Math.max(least, Math.min(width / size.width, height / size.height)));
    const y = Math.max((height - size.height * scale) / 2, 0);
    moveTo(d3.zoomIdentity.translate((width - size.width * scale) / 2, y).scale(scale));
  }

  function openAll(isOpen) {
    opened.clear();
    opened.add(-1);
    if (isOpen) for (const box of boxes.values()) if (box.boxes) opened.add(box.id);
    draw();
    fit(0.2);
  }

  let matches = [], next = 0;

  function find(text) {
    const wanted = text.toLowerCase();
    matches = wanted ? [...boxes.values()].filter((box) => box !== root && `${box.title} ${box.name}`.toLowerCase().includes(wanted)) : [];
    next = 0;
  }

  function showNext() {
    d3.select("#found").text(matches.length ? `${(next % matches.length) + 1} of ${matches.length}` : "nothing");
    if (!matches.length) return;
    const box = matches[next++ % matches.length];
    for (const outer of chain(box.id).slice(0, -1)) opened.add(outer.id);
    chosen = box;
    describe(box);
    draw();
    const place = places.get(box.id), { width, height } = svg.node().getBoundingClientRect();
    moveTo(d3.zoomIdentity.translate(width / 2 - place.left - place.width / 2, height / 2 - place.top - place.height / 2));
  }

  const arrowKeys = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };

  svg.on("keydown", (event) => {
    const { k } = d3.zoomTransform(svg.node());
    if (arrowKeys[event.key]) svg.call(zoom.translateBy, ...arrowKeys[event.key].map((step) => step / k));
    else if (event.key === "+") svg.call(zoom.scaleBy, 1.25);
    else if (event.key === "-") svg.call(zoom.scaleBy, 0.8);
    else if (event.key === "0") fit(0.05);
    else return;
    event.preventDefault();
  });
  d3.select("#open").on("click", () => openAll(true));
  d3.select("#close").on("click", () => openAll(false));
  d3.select("#fit").on("click", () => fit(0.05));
  d3.select("#closer").on("click", () => svg.call(zoom.scaleBy, 1.25));
  d3.select("#further").on("click", () => svg.call(zoom.scaleBy, 0.8));
  d3.select("#find").on("input", (event) => { find(event.target.value); if (matches.length) showNext(); else d3.select("#found").text(""); })
    .on("keydown", (event) => { if (event.key === "Enter") showNext(); });
  // A model that is one module has it open.
  for (let level = root.boxes.filter((box) => box.kind === "module"); level.length === 1; level = level[0].boxes.filter((box) => box.kind === "module")) {
    opened.add(level[0].id);
  }
  draw();
  fit(0.75);

  // -- rows of modules open and close -------------------------------------------------------------------------

  for (const table of document.querySelectorAll("#modules tbody")) {
    const rows = [...table.rows], depth = (row) => Number(row.dataset.depth);
    const inside = (i) => rows.slice(i + 1, i + 1 + rows.slice(i + 1).findIndex((row) => depth(row) <= depth(rows[i])) >>> 0);
    rows.forEach((row, i) => {
      const inner = inside(i);
      if (!inner.length || !depth(row)) return;
      const button = document.createElement("button");
      button.className = "more";
      button.type = "button";
      const show = (isOpen) => {
        button.textContent = isOpen ? "−" : "+";
        button.setAttribute("aria-expanded", isOpen);
        for (const other of inner) other.hidden = !isOpen || (depth(other) > depth(row) + 1 && other.hidden);
        if (!isOpen) for (const other of inner) other.querySelector("button")?.replaceChildren("+");
      };
      button.setAttribute("aria-label", `parts of ${row.cells[0].textContent}`);
      button.addEventListener("click", () => show(button.textContent === "+"));
      row.cells[0].prepend(button);
      show(false);
    });
  }

  // -- errors by output and run -----------------------------------------------------------------------------

  function plotErrors() {
    const plot = d3.select("#errors"), box = plot.node().getBoundingClientRect();
    const width = box.width, height = box.height, left = 52, right = 12, top = 12, bottom = 44;
    const relative = (error) => error.largest / (error.scale || 1), limit = (error) => error.allowed / (error.scale || 1);
    const runs = [...new Set(data.errors.map((error) => error.where))], outputs = [...new Set(data.errors.map((error) => error.output))];
    const numbers = data.errors.flatMap((error) => [relative(error), limit(error)]).filter((number) => number > 0);
    const low = 10 ** Math.floor(Math.log10(d3.min(numbers) ?? 1e-8) - 1), high = 10 ** Math.ceil(Math.log10(d3.max(numbers) ?? 1) + 0.3);
    const x = d3.scalePoint(runs, [left, width - right]).padding(0.6);
    const y = d3.scaleLog([low, high], [height - bottom, top]).clamp(true);
    const color = d3.scaleOrdinal(outputs, d3.schemeTableau10);
    plot.attr("viewBox", `0 0 ${width} ${height}`);
    for (const tick of y.ticks(5)) {
      if (Math.abs(Math.log10(tick) % 1) > 1e-6) continue;
      plot.append("line").attr("x1", left).attr("x2", width - right).attr("y1", y(tick)).attr("y2", y(tick));
      plot.append("text").attr("x", left - 6).attr("y", y(tick) + 4).attr("text-anchor", "end").text(tick === low ? "0" : tick.toExponential(0));
    }
    for (const run of runs) {
      const label = plot.append("text").attr("x", x(run)).attr("y", height - bottom + 16).attr("text-anchor", "middle").text(shortened(run, 18));
      label.append("title").text(run);
    }
    const shift = Math.min(14, x.step() / (outputs.length + 1));
    for (const error of data.errors) {
      const middle = x(error.where) + (outputs.indexOf(error.output) - (outputs.length - 1) / 2) * shift;
      if (limit(error) > 0) {
        plot.append("line").attr("class", "limit").attr("x1", middle - 8).attr("x2", middle + 8).attr("y1", y(limit(error))).attr("y2", y(limit(error)));
      }
      plot.append("circle").attr("cx", middle).attr("cy", y(Math.max(relative(error), low))).attr("r", 4.5).attr("fill", color(error.output))
        .append("title").text(`${error.output}, ${error.where}: ${error.largest.toPrecision(3)} of ${error.scale.toPrecision(3)}`);
    }
    let place = left;
    for (const output of outputs.slice(0, 8)) {
      plot.append("circle").attr("cx", place).attr("cy", height - 8).attr("r", 4.5).attr("fill", color(output));
      plot.append("text").attr("x", place + 8).attr("y", height - 4).text(shortened(output, 20));
      place += 24 + 6.2 * Math.min(output.length, 20);
    }
    plot.append("text").attr("x", width - right).attr("y", height - 4).attr("text-anchor", "end").text("difference / size; red: allowed");
  }
  if (data.errors.length) plotErrors();
})();

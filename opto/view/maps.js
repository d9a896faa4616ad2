"use strict";

function element(kind, name, text) {
  const made = document.createElement(kind);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

async function decoded(data) {
  const bytes = Uint8Array.from(atob(data.values), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  return data.wide ? new Uint16Array(buffer) : new Uint8Array(buffer);
}

// Draws maps in an element; `pressed(map, more)` is called for a click on a small map.
class MapView {
  constructor(root, pressed, led = false) {
    this.root = root;
    this.pressed = pressed;
    this.led = led;  // Another view chooses the example.
    this.on = new Set();
    this.map = 0;
    this.example = 0;
    this.cell = null;
  }

  async update(data) {
    this.codes = await decoded(data);
    const same = this.data && JSON.stringify([this.data.shape, this.data.names])
      === JSON.stringify([data.shape, data.names]);
    this.data = data;
    if (!same) this.build();
    this.draw();
  }

  build() {
    const data = this.data, [examples, maps] = data.shape;
    this.example = Math.min(this.example, examples - 1);
    this.map = Math.min(this.map, maps - 1);
    const bar = element("div", "opto-bar");
    if (examples > 1 && !this.led) {
      const label = element("label", "", "example ");
      this.chooser = element("select");
      for (let k = 0; k < examples; k++) this.chooser.append(new Option(String(k), String(k)));
      this.chooser.value = String(this.example);
      this.chooser.addEventListener("change", () => this.choose(this.map, Number(this.chooser.value)));
      label.append(this.chooser);
      bar.append(label);
    }
    this.title = element("strong", "opto-title");
    bar.append(this.title);
    const grid = element("div", "opto-grid");
    grid.setAttribute("role", "group");
    grid.setAttribute("aria-label", "maps");
    const groups = [...new Set(data.groups)];
    const most = Math.max(...groups.map(g => data.groups.filter(x => x === g).length));
    grid.style.gridTemplateColumns = "max-content repeat(" + most + ", 34px)";
    this.small = [];
    const used = groups.map(() => 0);
    groups.forEach((name, row) => {
      const text = element("span", "", name);
      text.style.gridRow = String(row + 1);
      text.style.gridColumn = "1";
      grid.append(text);
    });
    data.names.forEach((name, k) => {
      const row = groups.indexOf(data.groups[k]), button = element("button");
      button.type = "button";
      button.title = (data.groups[k] ? data.groups[k] + ", " : "") + name;
      button.setAttribute("aria-label", button.title);
      if (this.pressed) button.setAttribute("aria-pressed", "false");
      button.tabIndex = k === this.map ? 0 : -1;
      button.style.gridRow = String(row + 1);
      button.style.gridColumn = String(2 + used[row]);
      button.place = [row, used[row]++];
      button.append(element("canvas"));
      button.addEventListener("click", event => {
        this.choose(k, this.example);
        if (this.pressed) this.pressed(k, event.shiftKey);
      });
      button.addEventListener("keydown", event => this.move(event, k));
      grid.append(button);
      this.small.push(button);
    });
    this.large = element("canvas", "opto-large");
    this.large.tabIndex = 0;
    this.large.setAttribute("role", "img");
    this.large.addEventListener("mousemove", event => this.point(event));
    this.large.addEventListener("keydown", event => this.step(event));
    this.told = element("output", "opto-told");
    this.told.style.display = "block";
    const keys = element("p", "opto-keys", "Arrow keys move between maps, and in the large map between cells"
      + (examples > 1 ? "; Page Up and Page Down between examples." : "."));
    const side = element("div", "opto-side");
    side.append(this.title, this.large, this.told);
    const parts = element("div", "opto-parts");
    if (maps > 1) parts.append(grid);
    parts.append(side);
    this.root.replaceChildren(...(this.led ? [parts] : [bar, parts, keys]));
    const notes = [];
    if (data.step > 1) notes.push("A cell is the largest of " + data.step + " × " + data.step + " numbers.");
    if (data.examples > examples) notes.push("The first " + examples + " of " + data.examples + " examples.");
    if (notes.length) this.root.append(element("p", "opto-keys", notes.join(" ")));
  }

  code(map, row, column) {
    const [, maps, rows, columns] = this.data.shape;
    return this.codes[((this.example * maps + map) * rows + row) * columns + column];
  }

  value(map, row, column) {
    const code = this.code(map, row, column), { low, high, wide } = this.data;
    if (code === 0) return null;
    return low + (code - 1) / (wide ? 65534 : 254) * (high - low);
  }

  colour(code) {
    if (code === 0) return [255, 255, 255];
    const colours = this.data.colours;
    const place = (code - 1) / (this.data.wide ? 65534 : 254) * (colours.length - 1);
    const k = Math.min(Math.floor(place), colours.length - 2), a = colours[k], b = colours[k + 1];
    return a.map((x, i) => Math.round(x + (place - k) * (b[i] - x)));
  }

  pixels(canvas, map) {
    const [, , rows, columns] = this.data.shape;
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d"), picture = context.createImageData(columns, rows);
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) {
        const [r, g, b] = this.colour(this.code(map, i, j));
        picture.data.set([r, g, b, 255], 4 * (i * columns + j));
      }
    context.putImageData(picture, 0, 0);
  }

  draw() {
    const data = this.data, [, , rows, columns] = data.shape;
    this.small.forEach((button, k) => {
      this.pixels(button.firstChild, k);
      button.tabIndex = k === this.map ? 0 : -1;
      button.setAttribute("aria-current", String(k === this.map));
      if (this.pressed) button.setAttribute("aria-pressed", String(this.on.has(k)));
    });
    const name = data.names[this.map], group = data.groups[this.map];
    this.title.textContent = data.label + (group ? ", " + group : "") + (name ? ", " + name : "");
    const unit = Math.max(2, Math.min(22, Math.floor(380 / Math.max(rows, columns))));
    const rowNames = data.rows[this.example], columnNames = data.columns[this.example];
    const context = this.large.getContext("2d"), font = "11px system-ui, sans-serif";
    context.font = font;
    const short = (text, most = 20) => text.length > most ? text.slice(0, most - 1) + "…" : text;
    const across = data.words ? 64 : unit;
    const width = names => Math.max(...names.map(x => context.measureText(short(x)).width));
    const every = Math.max(1, Math.ceil(12 / unit)), middle = Math.max(unit / 2, 6);
    const left = Math.ceil(width(rowNames)) + 8, below = Math.ceil(width(columnNames)) + 10;
    const w = left + columns * across + 2, h = rows * unit + below;
    this.large.width = 2 * w;
    this.large.height = 2 * h;
    this.large.style.width = w + "px";
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.fillStyle = "#fff";
    context.fillRect(0, 0, w, h);
    const copy = element("canvas");
    this.pixels(copy, this.map);
    context.imageSmoothingEnabled = false;
    context.drawImage(copy, left, 0, columns * across, rows * unit);
    context.strokeStyle = "#999";
    context.lineWidth = 0.5;
    context.strokeRect(left, 0.25, columns * across, rows * unit);
    context.fillStyle = "#111";
    context.font = font;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (let i = 0; i < rows; i += every) context.fillText(short(rowNames[i]), left - 4, i * unit + middle);
    for (let j = 0; j < columns; j += every) {
      context.save();
      context.translate(left + (j + .5) * across, rows * unit + 4);
      context.rotate(-Math.PI / 2);
      context.fillText(short(columnNames[j]), 0, 0);
      context.restore();
    }
    if (data.words) {
      context.textAlign = "left";
      data.words[this.example][this.map].forEach((row, i) => row.forEach((text, j) => {
        context.fillStyle = this.colour(this.code(this.map, i, j))[0] < 120 ? "#fff" : "#111";
        context.fillText(short(text, 9), left + j * across + 3, (i + .5) * unit);
      }));
    }
    this.frame = { left, unit, across, w };
    if (this.cell) {
      const [i, j] = this.cell;
      context.strokeStyle = "#d55e00";
      context.lineWidth = 2;
      context.strokeRect(left + j * across, i * unit, across, unit);
    }
    this.tell();
  }

  choose(map, example) {
    this.map = map;
    this.example = example;
    if (this.chooser) this.chooser.value = String(example);
    this.draw();
    this.root.dispatchEvent(new CustomEvent("opto-chosen", { detail: { map, example } }));
  }

  tell() {
    const data = this.data;
    if (!this.cell) { this.told.textContent = ""; return; }
    const [i, j] = this.cell, value = this.value(this.map, i, j);
    const row = data.rows[this.example][i], column = data.columns[this.example][j];
    const words = data.words ? data.words[this.example][this.map][i][j] : "";
    const number = value === null ? "none" : value.toFixed(data.wide ? 3 : 2);
    const named = (kind, name, k) => kind + " " + name + (data.step > 1 || name === String(k) ? "" : " (" + k + ")");
    this.told.textContent = named(data.row, row, i) + ", " + named(data.column, column, j)
      + ": " + number + (words ? " · " + words : "");
    this.large.setAttribute("aria-label", this.title.textContent + ", " + this.told.textContent);
  }

  point(event) {
    const box = this.large.getBoundingClientRect(), { left, unit, across, w } = this.frame;
    const scale = w / box.width, [, , rows, columns] = this.data.shape;
    const j = Math.floor(((event.clientX - box.left) * scale - left) / across);
    const i = Math.floor((event.clientY - box.top) * scale / unit);
    if (i < 0 || j < 0 || i >= rows || j >= columns) return;
    this.cell = [i, j];
    this.draw();
  }

  page(event) {
    const by = { PageUp: -1, PageDown: 1 }[event.key];
    if (!by) return false;
    event.preventDefault();
    const [examples] = this.data.shape;
    this.choose(this.map, (this.example + by + examples) % examples);
    return true;
  }

  step(event) {
    if (this.page(event)) return;
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by) return;
    event.preventDefault();
    const [, , rows, columns] = this.data.shape, [i, j] = this.cell || [0, 0];
    this.cell = this.cell ? [(i + by[0] + rows) % rows, (j + by[1] + columns) % columns] : [0, 0];
    this.draw();
  }

  move(event, k) {
    if (this.page(event)) return;
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by) return;
    event.preventDefault();
    const [row, column] = this.small[k].place;
    const next = this.small.findIndex(b => b.place[0] === row + by[0] && b.place[1] === column + by[1]);
    if (next < 0) return;
    this.choose(next, this.example);
    this.small[next].focus();
  }
}

function start(roots, data) {
  if (typeof DecompressionStream === "undefined") return;  // The pictures stay.
  for (const root of roots) {
    if (root.dataset.started) continue;
    root.dataset.started = "yes";
    new MapView(root).update(data);
  }
}

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00", "#888888"];

function svg(kind, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Numbers with few digits: 0.5, 1200 as 1.2k.
function short(x) {
  const size = Math.abs(x);
  if (size >= 1e6) return Number((x / 1e6).toPrecision(3)) + "M";
  if (size >= 1e3) return Number((x / 1e3).toPrecision(3)) + "k";
  return size && size < 1e-3 ? x.toExponential(0) : String(Number(x.toPrecision(2)));
}

// Lines over training, with a mark at one checkpoint; `chosen(x)` is called for a click.
class Chart {
  constructor(root, data, chosen) {
    const [w, h, left, below, top] = [320, 170, 44, 30, 8];
    const names = Object.keys(data.lines), last = Math.max(...data.at);
    const numbers = names.flatMap(name => data.lines[name]).filter(x => x !== null);
    let low = Math.min(...numbers), high = Math.max(...numbers);
    if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
    this.x = at => left + at / (last || 1) * (w - left - 8);
    const y = value => top + (high - value) / (high - low) * (h - top - below);
    const box = element("div", "chart"), picture = svg("svg", { viewBox: "0 0 " + w + " " + h, role: "img" });
    picture.setAttribute("aria-label", data.label);
    picture.append(svg("text", { x: (w + left) / 2, y: h - 3, "text-anchor": "middle" }, data.unit));
    for (const value of [low, high]) {
      picture.append(svg("text", { x: left - 4, y: y(value) + 4, "text-anchor": "end" }, short(value)));
    }
    for (const value of [0, last / 2, last]) {
      const anchor = value === last ? "end" : value ? "middle" : "start";
      picture.append(svg("text", { x: this.x(value), y: h - 17, "text-anchor": anchor }, short(value)));
    }
    picture.append(svg("path", { d: "M" + left + " " + top + "V" + (h - below) + "H" + (w - 8), fill: "none", stroke: "#111" }));
    const heads = names.every(name => /^\d+:\d+$/.test(name));
    const groups = heads ? [...new Set(names.map(name => name.split(":")[0]))] : names;
    names.forEach(name => {
      const colour = COLOURS[groups.indexOf(heads ? name.split(":")[0] : name) % COLOURS.length];
      let path = "", pen = "M";
      data.lines[name].forEach((value, k) => {
        if (value === null) { pen = "M"; return; }
        path += pen + this.x(data.at[k]).toFixed(1) + " " + y(value).toFixed(1);
        pen = "L";
      });
      const line = svg("path", { d: path, fill: "none", stroke: colour, "stroke-width": 1.3 });
      line.append(svg("title", {}, heads ? "head " + name : name));
      picture.append(line);
    });
    this.mark = svg("line", { y1: top, y2: h - below, stroke: "#111", "stroke-dasharray": "3 2" });
    picture.append(this.mark);
    picture.addEventListener("click", event => {
      const size = picture.getBoundingClientRect();
      chosen(((event.clientX - size.left) * w / size.width - left) / (w - left - 8) * last);
    });
    const legend = element("div", "legend");
    groups.forEach((name, k) => {
      const text = element("b", "", heads ? "layer " + name : name);
      text.style.borderColor = COLOURS[k % COLOURS.length];
      legend.append(text);
    });
    box.append(element("strong", "", data.label), picture, legend);
    root.append(box);
  }

  at(checkpoint) {
    const x = this.x(checkpoint).toFixed(1);
    this.mark.setAttribute("x1", x);
    this.mark.setAttribute("x2", x);
  }
}

function nearest(numbers, x) {
  return numbers.reduce((best, n) => Math.abs(n - x) < Math.abs(best - x) ? n : best, numbers[0]);
}

function look(data) {
  const stored = data.stored, token = new URLSearchParams(location.search).get("token");
  const known = side => stored ? Object.keys(stored[side]).map(Number) : data.sides[side].checkpoints;
  const every = [...new Set(data.sides.flatMap((_, k) => known(k)))].sort((a, b) => a - b);
  let at = every[every.length - 1];
  const time = document.getElementById("time"), play = element("button", "", "Play");
  play.type = "button";
  const slider = element("input"), seen = element("output");
  Object.assign(slider, { type: "range", id: "checkpoint", min: "0", max: String(every.length - 1), autocomplete: "off" });
  slider.value = String(every.length - 1);
  slider.setAttribute("aria-label", "checkpoint");
  time.append(play, slider, seen);

  const sides = data.sides.map((about, k) => {
    const root = element("div", "side"), view = element("div", "opto-maps"), charts = element("div", "charts");
    if (data.sides.length > 1) root.append(element("h2", "", about.name));
    const chooser = element("select"), label = element("label", "", "evaluation set ");
    for (const name of stored ? about.sets.slice(0, 1) : about.sets) chooser.append(new Option(name, name));
    label.append(chooser);
    root.append(label, view, charts);
    document.getElementById("sides").append(root);
    const side = { about, charts: about.charts.map(chart => new Chart(charts, chart, go)) };
    const ask = async choice => {
      const checkpoint = nearest(known(k), at);
      for (const chart of side.charts) chart.at(checkpoint);
      if (stored) return stored[k][checkpoint];
      const question = { side: k, set: chooser.value, checkpoint, choice };
      const reply = await fetch("/answer?token=" + encodeURIComponent(token), { method: "POST", body: JSON.stringify(question) });
      if (!reply.ok) throw new Error("no answer: is `icl look` still running?");
      return reply.json();
    };
    side.view = new ExploreView(view, about, ask);
    if (stored) side.view.fix();
    side.view.choose(about.chosen);
    chooser.addEventListener("change", () => side.view.send());
    return side;
  });

  function go(x) {
    at = nearest(every, x);
    slider.value = String(every.indexOf(at));
    tell();
    return Promise.all(sides.map(side => side.view.send()));
  }
  function tell() {
    const unit = data.sides[0].charts.length ? data.sides[0].charts[0].unit : "sequences seen";
    seen.textContent = at.toLocaleString("en") + " " + unit + " (" + (every.indexOf(at) + 1) + " of " + every.length + ")";
  }
  slider.addEventListener("input", () => { playing = false; go(every[Number(slider.value)]); });
  let playing = false;
  play.addEventListener("click", async () => {
    playing = !playing;
    play.textContent = playing ? "Stop" : "Play";
    let k = every.indexOf(at) === every.length - 1 ? -1 : every.indexOf(at);
    while (playing && ++k < every.length) {
      await go(every[k]);
      await new Promise(done => setTimeout(done, 120));
    }
    playing = false;
    play.textContent = "Play";
  });
  go(at);
}

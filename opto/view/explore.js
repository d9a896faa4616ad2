// Draws what an explorer answers; `ask(choice)` sends a choice.
class ExploreView {
  constructor(root, about, ask) {
    this.root = root;
    this.about = about;
    this.ask = ask;
    this.choice = { heads: [], kind: "zero", strength: 1, edits: [] };
    const bar = element("div", "opto-bar");
    this.number = element("output", "opto-number");
    this.number.setAttribute("aria-live", "polite");
    const kind = element("select");
    for (const name of about.kinds) kind.append(new Option(name, name));
    kind.addEventListener("change", () => this.change({ kind: kind.value }));
    const kindLabel = element("label", "", "ablate to ");
    kindLabel.append(kind);
    const slider = element("input");
    Object.assign(slider, { type: "range", min: "0", max: "1", step: "0.05", value: "1" });
    const strength = element("output", "", "1");
    slider.addEventListener("input", () => {
      strength.textContent = slider.value;
      this.change({ strength: Number(slider.value) });
    });
    const sliderLabel = element("label", "", "strength ");
    sliderLabel.append(slider, strength);
    const none = element("button", "", "no ablation");
    none.type = "button";
    none.addEventListener("click", () => this.change({ heads: [] }));
    bar.append(this.number, kindLabel, sliderLabel, none);
    const list = element("div", "opto-bar");
    this.boxes = [];
    about.edits.forEach((text, k) => {
      const label = element("label"), box = element("input");
      box.type = "checkbox";
      this.boxes.push(box);
      box.addEventListener("change", () => {
        const rest = this.choice.edits.filter(x => x !== k);
        this.change({ edits: box.checked ? [...rest, k].sort((a, b) => a - b) : rest });
      });
      label.append(box, " " + text);
      list.append(label);
    });
    const maps = element("div"), lens = element("div");
    this.text = element("div", "opto-text");
    this.text.tabIndex = 0;
    this.wrong = element("p", "opto-wrong");
    this.wrong.setAttribute("role", "alert");
    const help = element("p", "opto-keys", "A click on a head (or Enter) ablates it, and with Shift adds it or takes it away.");
    this.controls = [kindLabel, sliderLabel, none, list, help];
    root.replaceChildren(bar, list, help, this.wrong, maps, lens, this.text);
    this.lensRoot = lens;
    this.maps = new MapView(maps, (map, more) => this.press(map, more));
    this.lens = new MapView(lens, undefined, true);
    maps.addEventListener("opto-chosen", event => {
      if (this.lens.data && this.lens.example !== event.detail.example)
        this.lens.choose(this.lens.map, event.detail.example);
    });
  }

  // Nothing can be changed: there is nobody to ask.
  fix() {
    this.fixed = true;
    for (const part of this.controls) part.hidden = true;
  }

  choose(edits) {
    this.choice.edits = edits;
    this.boxes.forEach((box, k) => { box.checked = edits.includes(k); });
  }

  press(map, more) {
    if (this.fixed) return;
    const head = this.about.heads[map], same = x => x[0] === head[0] && x[1] === head[1];
    const there = this.choice.heads.some(same);
    const rest = more ? this.choice.heads.filter(x => !same(x)) : [];
    const alone = there && this.choice.heads.length === 1;
    this.change({ heads: (more ? there : alone) ? rest : [...rest, head] });
  }

  change(part) {
    Object.assign(this.choice, part);
    this.send();
  }

  // One question at a time: the last choice is asked when the answer is there.
  async send() {
    if (this.busy) { this.again = true; return; }
    this.busy = true;
    try {
      do {
        this.again = false;
        await this.update(await this.ask(this.choice));
      } while (this.again);
      this.wrong.textContent = "";
    } catch (error) {
      this.wrong.textContent = String(error.message || error);
    } finally {
      this.busy = false;
    }
  }

  async update(answer) {
    if (answer.wrong) throw new Error(answer.wrong);
    const format = x => x === null ? "not a number" : Number(x).toPrecision(5);
    this.number.textContent = this.about.metric + " " + format(answer.metric)
      + " (without " + format(answer.bare) + ")";
    this.text.textContent = answer.text;
    const on = answer.heads.map(head => this.about.heads.findIndex(x => x[0] === head[0] && x[1] === head[1]));
    this.maps.on = new Set(on);
    if (answer.patterns) await this.maps.update(answer.patterns);
    if (answer.lens) {
      this.lens.example = this.maps.example;
      await this.lens.update(answer.lens);
    }
    this.root.dataset.answered = String(Number(this.root.dataset.answered || 0) + 1);
  }
}

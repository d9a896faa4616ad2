function render({ model, el }) {
  const root = element("div", "opto-maps");
  el.append(root);
  let number = 0;
  const waiting = new Map();
  const ask = choice => new Promise(done => {
    number += 1;
    waiting.set(number, done);
    model.send({ number, choice });
  });
  model.on("msg:custom", message => {
    const done = waiting.get(message.number);
    waiting.delete(message.number);
    if (done) done(message.answer);
  });
  new ExploreView(root, model.get("about"), ask).update(model.get("first"));
}
export default { render };

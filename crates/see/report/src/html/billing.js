/* Billing steps: ticks that a quantum was billed against its length, one chart a rate. */
function drawSteps(name) {
  const place = document.getElementById("steps");
  place.replaceChildren();
  for (const steps of data.steps.filter((one) => one.name === name)) {
    const period = 1e9 / steps.hz;
    const longest = Math.max(...steps.cells.map((cell) => cell[0]), period * 2);
    const most = Math.max(...steps.cells.map((cell) => cell[1]), 1, longest / period);
    const greatest = Math.max(...steps.cells.map((cell) => cell[2]), 1);
    const x = linear(longest * 1.05, 40, 350, (value) => duration(value), 1);
    const y = linear(most * 1.05, 220, 10, (value) => String(Number(value.toPrecision(3))), 1);
    const svg = element("svg", { class: "chart" });
    frame(svg, 366, 242, x, y);
    const end = Math.min(longest * 1.05, most * 1.05 * period);
    svg.append(element("line", { class: "mark", x1: x.place(0), y1: y.place(0), x2: x.place(end), y2: y.place(end / period) }));
    for (const [length, ticks, count] of steps.cells) {
      const radius = 1.5 + 9 * Math.sqrt(count / greatest);
      const disk = element("circle", { class: "disk", cx: x.place(length), cy: y.place(ticks), r: radius.toFixed(1) });
      disk.append(element("title", {}, `${count} quanta of about ${duration(length)}: billed ${ticks} ticks`));
      svg.append(disk);
    }
    svg.dataset.drawn = steps.cells.length;
    const figure = element("figure", {});
    figure.append(element("figcaption", {}, `${steps.hz.toLocaleString("en")} Hz: ticks billed by length`), svg);
    place.append(figure);
  }
}

function startSteps() {
  const pick = document.getElementById("steps-pick");
  if (!pick) return;
  const names = [...new Set(data.steps.map((one) => one.name))];
  for (const name of names) pick.append(element("option", { value: name }, name));
  pick.addEventListener("change", () => drawSteps(pick.value));
  drawSteps(names[0]);
}

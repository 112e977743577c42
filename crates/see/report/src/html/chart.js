/* Charts: scales, axes, cumulative distributions. Names reach the page as text nodes only. */
const data = JSON.parse(document.getElementById("data").textContent);
const palette = ["#4e79a7", "#e8862a", "#4f9d4a", "#d9484d", "#a770a0", "#3fa39b", "#c9a227", "#8f6d58",
  "#e57f9a", "#6b7fd7", "#7fa650", "#b8583a"];

/* Further colours turn the hue by the golden angle. */
function colourOf(number) {
  return palette[number] || `hsl(${Math.round(number * 137.508) % 360} ${38 + number % 3 * 12}% ${46 + number % 4 * 5}%)`;
}

function element(name, attributes, text) {
  const svg = ["svg", "g", "line", "text", "path", "circle", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* A duration as the tables show it, without zeros at its end: what would be 1000 of a unit is 1 of the next. */
function duration(ns) {
  const units = [[1, "ns"], [1e3, "us"], [1e6, "ms"], [1e9, "s"]];
  let at = 0;
  while (at < 3 && Math.abs(ns) >= 0.9995 * units[at + 1][0]) at++;
  const value = ns / units[at][0];
  return (at === 0 ? String(Math.round(value)) : String(Number(value.toPrecision(3)))) + " " + units[at][1];
}

/* An empty chart with its axes; x and y map values to places. */
function frame(svg, width, height, x, y) {
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  for (const [value, label] of x.ticks) {
    const at = x.place(value);
    svg.append(element("line", { class: "grid", x1: at, x2: at, y1: y.end, y2: y.start }));
    svg.append(element("text", { x: at, y: y.start + 14, class: "middle" }, label));
  }
  for (const [value, label] of y.ticks) {
    const at = y.place(value);
    svg.append(element("line", { class: "grid", x1: x.start, x2: x.end, y1: at, y2: at }));
    svg.append(element("text", { x: x.start - 5, y: at + 4, class: "end" }, label));
  }
}

/* A logarithmic axis of durations from low to high, with a tick a decade. */
function logarithmic(low, high, start, end) {
  const first = Math.floor(Math.log10(Math.max(low, 1)));
  const last = Math.max(Math.ceil(Math.log10(Math.max(high, 1))), first + 1);
  const ticks = [];
  for (let power = first; power <= last; power++) ticks.push([10 ** power, duration(10 ** power)]);
  const place = (value) => start + (Math.log10(Math.max(value, 10 ** first)) - first) / (last - first) * (end - start);
  return { ticks, place, start, end };
}

/* A linear axis from 0 to high with at most six ticks at round values, no closer than least. */
function linear(high, start, end, label, least) {
  const power = 10 ** Math.floor(Math.log10(high / 5 || 1));
  const step = Math.max([1, 2, 5, 10].map((factor) => factor * power).find((size) => high / size <= 5.5) || high, least);
  const ticks = [];
  for (let value = 0; value <= high * 1.0001; value += step) ticks.push([value, label(value)]);
  return { ticks, place: (value) => start + value / high * (end - start), start, end };
}

const picked = [];

function drawCurves(id, part) {
  const svg = document.getElementById(id);
  const shown = picked.map((number) => [number, data.curves[number][part]]).filter(([, points]) => points && points.length);
  const values = shown.flatMap(([, points]) => [points[0][0], points[points.length - 1][0]]);
  const x = logarithmic(Math.min(...values, 1e6), Math.max(...values, 1e4), 44, 510);
  const y = linear(1, 240, 10, (share) => Math.round(share * 100) + " %", 0);
  frame(svg, 530, 262, x, y);
  shown.forEach(([number, points]) => {
    let way = `M${x.place(points[0][0]).toFixed(1)} ${y.place(0)}`;
    for (const [value, share] of points) way += `H${x.place(value).toFixed(1)}V${y.place(share).toFixed(1)}`;
    const curve = element("path", { class: "curve", d: way, style: `--own:${colourOf(number)}` });
    curve.append(element("title", {}, data.curves[number].name));
    svg.append(curve);
  });
  svg.dataset.drawn = shown.length;
}

function drawPicked() {
  const chips = document.getElementById("picked");
  chips.replaceChildren();
  for (const number of picked) {
    const chip = element("button", { type: "button", class: "chip", title: "leave out" });
    chip.append(element("i", { style: `background:${colourOf(number)}` }), data.curves[number].name);
    chip.addEventListener("click", () => {
      picked.splice(picked.indexOf(number), 1);
      drawPicked();
    });
    chips.append(chip);
  }
  drawCurves("cdf-quanta", "quanta");
  drawCurves("cdf-dispatch", "dispatch");
}

function startCurves() {
  const pick = document.getElementById("pick");
  if (!pick) return;
  pick.append(element("option", { value: "" }, "add a task"));
  data.curves.forEach((curve, number) => pick.append(element("option", { value: number }, curve.name)));
  for (let number = 0; number < Math.min(4, data.curves.length); number++) picked.push(number);
  pick.addEventListener("change", () => {
    const number = Number(pick.value);
    if (pick.value !== "" && !picked.includes(number)) picked.push(number);
    pick.value = "";
    drawPicked();
  });
  drawPicked();
}

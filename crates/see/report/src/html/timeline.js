/* The time line: who had each CPU, the whole trace in columns and the worst delays exactly. */
const view = { from: data.from_ns, to: Math.max(data.to_ns, data.from_ns + 1), chosen: -1, hits: [] };
/* What has no name of its own, by -1, -2, -3: what it is called and its colour. */
let nameless = [];
const LANE = 46, GAP = 12, LEFT = 52, TOP = 4, FOOT = 22;

function cpusShown() {
  let cpus = data.drawing ? data.drawing.cpus.length : 0;
  for (const delay of data.delays) for (const slice of delay.slices) cpus = Math.max(cpus, slice[0] + 1);
  return Math.min(cpus, 64);
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function drawLine() {
  const canvas = document.getElementById("timeline");
  if (!canvas) return;
  const cpus = cpusShown();
  const width = Math.max(canvas.clientWidth, 300), height = TOP + cpus * (LANE + GAP) + FOOT;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "12px system-ui, sans-serif";
  view.width = width;
  nameless = [["idle", css("--idle")], ["not known", css("--unknown")], ["other tasks", css("--others")]];
  view.hits = [];
  for (let cpu = 0; cpu < cpus; cpu++) {
    pen.fillStyle = css("--faint");
    pen.fillText("CPU " + cpu, 0, TOP + cpu * (LANE + GAP) + LANE / 2 + 4);
    pen.fillStyle = css("--idle");
    pen.fillRect(LEFT, TOP + cpu * (LANE + GAP), width - LEFT, LANE);
  }
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, width - LEFT, height);
  pen.clip();
  if (data.drawing) drawColumns(pen, cpus);
  data.delays.forEach((delay, number) => drawDelay(pen, delay, number === view.chosen, cpus));
  pen.restore();
  drawClock(pen, height);
  legend();
  document.getElementById("shown").textContent =
    `${duration(view.to - view.from)} from ${(view.from / 1e9).toFixed(6)} s on`;
  canvas.dataset.drawn = view.hits.length;
}

function placeOf(time) {
  return LEFT + (time - view.from) / (view.to - view.from) * (view.width - LEFT);
}

/* Columns: each task's share as height, the greatest at the bottom. */
function drawColumns(pen, cpus) {
  const { from_ns, column_ns } = data.drawing;
  const first = Math.max(0, Math.floor((view.from - from_ns) / column_ns));
  const last = Math.ceil((view.to - from_ns) / column_ns);
  for (let cpu = 0; cpu < Math.min(cpus, data.drawing.cpus.length); cpu++) {
    const bottom = TOP + cpu * (LANE + GAP) + LANE;
    data.drawing.cpus[cpu].slice(first, last).forEach((pairs, at) => {
      const start = from_ns + (first + at) * column_ns;
      const left = placeOf(start), width = placeOf(start + column_ns) - left;
      let y = bottom;
      for (let part = 0; part < pairs.length; part += 2) {
        const tall = pairs[part + 1] / 1000 * LANE;
        box(pen, left, y - tall, width, tall, pairs[part], start, start + column_ns, pairs[part + 1] / 10);
        y -= tall;
      }
    });
  }
}

/* Edges fall on whole pixels, or neighbours would show seams. */
function box(pen, left, top, width, tall, name, start, end, percent) {
  const ratio = window.devicePixelRatio || 1, from = Math.round(left * ratio) / ratio;
  width = Math.max(Math.round((left + width) * ratio) / ratio - from, 0.5);
  left = from;
  pen.fillStyle = name < 0 ? nameless[-name - 1][1] : colourOf(name);
  pen.fillRect(left, top, width, tall);
  view.hits.push({ left, top, right: left + width, bottom: top + tall, name, start, end, percent });
}

function drawDelay(pen, delay, chosen, cpus) {
  if (delay.end_ns < view.from || delay.start_ns > view.to) return;
  if (chosen) {
    for (const [cpu, start, end, name] of delay.slices) {
      if (cpu >= cpus) continue;
      const left = placeOf(start), top = TOP + cpu * (LANE + GAP);
      pen.fillStyle = css("--idle");
      pen.fillRect(left, top, placeOf(end) - left, LANE);
      box(pen, left, top, placeOf(end) - left, LANE, name, start, end, 100);
    }
  }
  const left = placeOf(delay.start_ns), right = Math.max(placeOf(delay.end_ns), left + 2);
  const top = TOP + Math.min(delay.cpu, cpus - 1) * (LANE + GAP) + LANE + 2;
  pen.fillStyle = css("--bad");
  if (!chosen) {
    pen.globalAlpha = 0.55;
    pen.fillRect(left, top, right - left, 4);
    pen.globalAlpha = 1;
    return;
  }
  pen.save();
  pen.beginPath();
  pen.rect(left, top, right - left, GAP - 4);
  pen.clip();
  pen.strokeStyle = css("--bad");
  pen.lineWidth = 2;
  pen.beginPath();
  for (let x = Math.max(left, LEFT) - GAP; x < Math.min(right, view.width); x += 6) {
    pen.moveTo(x, top + GAP);
    pen.lineTo(x + GAP, top);
  }
  pen.stroke();
  pen.restore();
}

function drawClock(pen, height) {
  const span = view.to - view.from, power = 10 ** Math.floor(Math.log10(span / 6 || 1));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => span / size <= 9);
  const digits = Math.max(0, Math.ceil(-Math.log10(step / 1e9)));
  pen.fillStyle = css("--faint");
  pen.textAlign = "center";
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const at = placeOf(time);
    pen.fillRect(at, TOP, 0.5, height - TOP - FOOT + 2);
    if (at > LEFT + 20 && at < view.width - 30) pen.fillText((time / 1e9).toFixed(digits) + " s", at, height - 6);
  }
  pen.textAlign = "start";
}

function nameOf(number) {
  return number < 0 ? nameless[-number - 1][0] : data.names[number];
}

/* The names with the most area on view. */
function legend() {
  const areas = new Map();
  for (const hit of view.hits) {
    const seen = Math.min(hit.right, view.width) - Math.max(hit.left, LEFT);
    if (hit.name !== -1 && seen > 0) areas.set(hit.name, (areas.get(hit.name) || 0) + seen * (hit.bottom - hit.top));
  }
  const top = [...areas].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 12);
  document.getElementById("legend").replaceChildren(...top.map(([name]) => {
    const entry = element("span", {});
    const colour = name < 0 ? nameless[-name - 1][1] : colourOf(name);
    entry.append(element("i", { style: `background:${colour}` }), nameOf(name));
    return entry;
  }));
}

function look(from, to) {
  const least = 1000, whole = Math.max(data.to_ns - data.from_ns, least);
  const span = Math.min(Math.max(to - from, least), whole);
  from = Math.min(Math.max((from + to - span) / 2, data.from_ns), data.from_ns + whole - span);
  view.from = from;
  view.to = from + span;
  drawLine();
}

function zoom(factor, at) {
  look(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

function chooseDelay(number) {
  const delay = data.delays[number];
  if (!delay) return;
  view.chosen = number;
  document.querySelectorAll("tr[data-delay]").forEach((row) =>
    row.classList.toggle("chosen", Number(row.dataset.delay) === number));
  const margin = (delay.end_ns - delay.start_ns) * 0.5 + 1000;
  look(delay.start_ns - margin, delay.end_ns + margin);
  document.getElementById("tip-line").textContent = delay.text;
}

function timeAt(canvas, event) {
  const x = event.clientX - canvas.getBoundingClientRect().left;
  return view.from + (x - LEFT) / (view.width - LEFT) * (view.to - view.from);
}

function hover(canvas, event) {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  const hit = view.hits.findLast((one) => x >= one.left && x < one.right && y >= one.top && y < one.bottom);
  if (!hit || x < LEFT) return;
  const part = hit.percent < 100 ? `, ${hit.percent} % of it` : "";
  document.getElementById("tip-line").textContent =
    `${nameOf(hit.name)}: ${duration(hit.end - hit.start)} at ${(hit.start / 1e9).toFixed(6)} s${part}`;
}

function startLine() {
  const canvas = document.getElementById("timeline");
  if (!canvas) return;
  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    grip = { time: timeAt(canvas, event) };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { grip = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (!grip) return hover(canvas, event);
    const moved = grip.time - timeAt(canvas, event);
    look(view.from + moved, view.to + moved);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(canvas, event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = (view.to - view.from) / 8, middle = (view.from + view.to) / 2;
    if (event.key === "ArrowLeft") look(view.from - step, view.to - step);
    else if (event.key === "ArrowRight") look(view.from + step, view.to + step);
    else if (event.key === "+") zoom(0.5, middle);
    else if (event.key === "-") zoom(2, middle);
  });
  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
    if (button.dataset.zoom === "all") look(data.from_ns, data.to_ns);
    else zoom(Number(button.dataset.zoom), (view.from + view.to) / 2);
  }));
  document.querySelectorAll("tr[data-delay]").forEach((row) => {
    row.addEventListener("click", () => chooseDelay(Number(row.dataset.delay)));
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") chooseDelay(Number(row.dataset.delay)); });
  });
  window.addEventListener("resize", drawLine);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawLine);
  if (data.delays.length) chooseDelay(0);
  else drawLine();
}

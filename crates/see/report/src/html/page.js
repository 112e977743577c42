/* Starts the charts and makes the tables sortable. */
function sortBy(head, column) {
  const body = head.closest("table").tBodies[0];
  const down = head.getAttribute("aria-sort") !== "descending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  const order = (a, b) => (typeof a === "number" && typeof b === "number" ? b - a : String(b).localeCompare(String(a)));
  const rows = [...body.rows].map((row) => [key(row), row]);
  rows.sort((a, b) => (down ? order(a[0], b[0]) : order(b[0], a[0])));
  body.append(...rows.map(([, row]) => row));
}

function startTables() {
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const first = table.tBodies[0].rows[0];
      if (first && first.cells[column].classList.contains("n")) head.classList.add("n");
      head.tabIndex = 0;
      head.addEventListener("click", () => sortBy(head, column));
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sortBy(head, column); });
    });
  }
}

document.documentElement.classList.add("scripted");
startTables();
startCurves();
startLine();
startSteps();
document.documentElement.dataset.ready = "yes";

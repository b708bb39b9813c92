"use strict";
// Tables sort by a click, Enter or Space on a column's name; without this script they are as Python sorted them.
(function () {
  const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const value = (row, column) => {
    const cell = row.cells[column];
    const key = cell.dataset.sort;
    return key === undefined ? cell.textContent : key === "" ? NaN : Number(key);
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : words.compare(a, b));
  const missing = (v) => typeof v === "number" && Number.isNaN(v);
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => [value(row, column), row]);
        rows.sort(([a], [b]) => missing(a) - missing(b) || (missing(a) ? 0 : up ? compare(a, b) : compare(b, a)));
        body.append(...rows.map(([, row]) => row));
      });
    });
  }
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
})();

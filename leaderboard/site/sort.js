"use strict";
// Sorts the rows of a table by a column. An empty data-value is "not known" and stays last in either direction.
function sortTable(table, column, descending) {
  const body = table.tBodies[0];
  const headers = Array.from(table.tHead.rows[0].cells);
  const numeric = headers[column].dataset.kind === "number";
  const rows = Array.from(body.rows).map(function (row) {
    const text = row.cells[column].dataset.value;
    return { row: row, known: text !== "", key: numeric ? Number(text) : text.toLowerCase() };
  });
  rows.sort(function (a, b) {
    if (a.known !== b.known) return a.known ? -1 : 1;
    const way = a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
    return descending ? -way : way;
  });
  const fragment = document.createDocumentFragment();
  rows.forEach(function (entry) { fragment.appendChild(entry.row); });
  body.appendChild(fragment);
  headers.forEach(function (header, index) {
    const state = index !== column ? "none" : descending ? "descending" : "ascending";
    header.setAttribute("aria-sort", state);
  });
}

// Calls sorted(column, descending) after the button of a column was pressed, by mouse or keyboard.
function makeSortable(table, sorted) {
  Array.from(table.tHead.rows[0].cells).forEach(function (header, index) {
    header.querySelector("button").addEventListener("click", function () {
      const now = header.getAttribute("aria-sort");
      const descending = now === "none" ? header.dataset.first === "descending" : now === "ascending";
      sortTable(table, index, descending);
      sorted(index, descending);
    });
  });
}

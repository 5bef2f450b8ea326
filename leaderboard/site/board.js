"use strict";
(function () {
  const table = document.getElementById("board");
  if (!table) return;
  const body = table.tBodies[0];
  const headers = Array.from(table.tHead.rows[0].cells);
  const search = document.getElementById("search");
  const hardware = document.getElementById("hardware");
  const shown = document.getElementById("shown");
  let sorted = { column: -1, descending: false };

  // an empty data-value is "not known" and stays last in either direction
  function order(column, descending) {
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
    sorted = { column: column, descending: descending };
  }

  function filter() {
    const words = search.value.toLowerCase();
    let count = 0;
    Array.from(body.rows).forEach(function (row) {
      const fits = (!hardware.value || row.dataset.hardware === hardware.value) &&
        row.textContent.toLowerCase().includes(words);
      row.hidden = !fits;
      count += fits ? 1 : 0;
    });
    shown.textContent = count + " of " + body.rows.length + " shown";
  }

  function remember() {
    const state = new URLSearchParams();
    if (search.value) state.set("q", search.value);
    if (hardware.value) state.set("hardware", hardware.value);
    if (sorted.column >= 0) state.set("sort", (sorted.descending ? "-" : "") + sorted.column);
    history.replaceState(null, "", "#" + state.toString());
  }

  function recall() {
    const state = new URLSearchParams(location.hash.slice(1));
    search.value = state.get("q") || "";
    hardware.value = state.get("hardware") || "";
    const sort = state.get("sort") || "";
    const column = Math.abs(Number(sort.replace("-", "")));
    if (sort !== "" && column < headers.length) order(column, sort.startsWith("-"));
    filter();
  }

  headers.forEach(function (header, index) {
    header.querySelector("button").addEventListener("click", function () {
      const first = header.dataset.first === "descending";
      order(index, sorted.column === index ? !sorted.descending : first);
      remember();
    });
  });
  search.addEventListener("input", function () { filter(); remember(); });
  hardware.addEventListener("change", function () { filter(); remember(); });
  window.addEventListener("hashchange", recall);
  recall();
})();

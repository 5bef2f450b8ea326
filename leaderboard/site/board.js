(function () {
  const table = document.getElementById("board");
  if (!table) return;
  const body = table.tBodies[0];
  const headers = Array.from(table.tHead.rows[0].cells);
  const search = document.getElementById("search");
  const hardware = document.getElementById("hardware");
  const shown = document.getElementById("shown");
  let sorted = { column: -1, descending: false };

  function order(column, descending) {
    sortTable(table, column, descending);
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

  makeSortable(table, function (column, descending) {
    sorted = { column: column, descending: descending };
    remember();
  });
  search.addEventListener("input", function () { filter(); remember(); });
  hardware.addEventListener("change", function () { filter(); remember(); });
  window.addEventListener("hashchange", recall);
  recall();
})();

(function () {
  document.querySelectorAll("table.sortable").forEach(function (table) {
    makeSortable(table, function () {});
  });

  const button = document.getElementById("scheme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function isDark() {
    const chosen = document.documentElement.dataset.scheme;
    return chosen ? chosen === "dark" : dark.matches;
  }
  function label() {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(isDark()));
  }
  button.addEventListener("click", function () {
    document.documentElement.dataset.scheme = isDark() ? "light" : "dark";
    label();
  });
  dark.addEventListener("change", label);
  label();

  const tip = document.getElementById("tip");
  document.addEventListener("pointermove", function (event) {
    const mark = event.target.closest ? event.target.closest("[data-tip]") : null;
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const wide = document.documentElement.clientWidth;
    tip.style.left = Math.max(4, Math.min(event.clientX + 12, wide - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 10) + "px";
  });
})();

"use strict";
// Everything can be read without this: it filters, sorts, and opens what a link points to.
(() => {
  const open = (id) => {
    const found = id && document.getElementById(id);
    if (!found) return;
    for (let at = found; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    found.scrollIntoView({ block: "start" });
    (found.tagName === "DETAILS" ? found.firstElementChild : found).focus({ preventScroll: true });
  };
  const follow = () => open(decodeURIComponent(location.hash.slice(1)));
  addEventListener("hashchange", follow);
  // The same link twice changes no address.
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) follow();
  });
  follow();

  const table = document.getElementById("verdict-table");
  const form = document.getElementById("filters");
  if (!table || !form) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const shown = document.getElementById("shown");
  const texts = new Map();
  const textOf = (row) => {
    const id = row.dataset.comment;
    if (!texts.has(id)) {
      const comment = document.getElementById(id);
      const whole = comment && comment.closest("article").querySelector("[data-text]");
      texts.set(id, (whole || row.querySelector(".text")).textContent.toLowerCase());
    }
    return texts.get(id);
  };
  const filter = () => {
    const want = Object.fromEntries(new FormData(form));
    const instance = want.instance.trim().toLowerCase();
    const text = want.text.trim().toLowerCase();
    let count = 0;
    for (const row of rows) {
      const data = row.dataset;
      const fits =
        (!want.arm || data.arm === want.arm) &&
        (!want.verdict || data.verdict === want.verdict) &&
        (!want.reason || data.reason === want.reason) &&
        (!want.mark || data.marks.split("|").includes(want.mark)) &&
        (!instance || row.querySelector("th").textContent.toLowerCase().includes(instance)) &&
        (!text || textOf(row).includes(text));
      row.hidden = !fits;
      count += fits ? 1 : 0;
    }
    shown.textContent =
      count === rows.length ? `${count.toLocaleString("en")} verdicts`
        : `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} verdicts`;
  };
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  // A browser may have kept what was typed before a reload.
  filter();

  const heads = Array.from(table.tHead.rows[0].cells);
  const value = (row, column, kind) => {
    const cell = row.cells[column];
    if (kind !== "number") return cell.textContent.trim();
    return cell.dataset.value === "" ? -1 : Number(cell.dataset.value);
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const kind = head.dataset.sort;
      const keyed = rows.map((row, index) => [value(row, column, kind), index, row]);
      const order = (a, b) => (kind === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
      keyed.sort((a, b) => (up ? order(a[0], b[0]) : order(b[0], a[0])) || a[1] - b[1]);
      body.append(...keyed.map((entry) => entry[2]));
    });
  });
})();

"use strict";
// Keeps the answers in this browser, and gives them as JSON Lines.
const fields = ["actionable", "specific", "verifiable", "category", "oracle", "note"];
const sets = [...document.querySelectorAll("fieldset")];
const store = "redgreen-labels:" + document.title + ":" + sets.length;
const who = document.getElementById("who");

function answers(set) {
  return Object.fromEntries(fields.map((name) => [name, set.querySelector(`[name="${name}"]`).value]));
}

function show() {
  let done = 0;
  for (const set of sets) {
    const given = answers(set);
    const whole = fields.slice(0, 5).every((name) => given[name] !== "");
    set.classList.toggle("done", whole);
    done += whole ? 1 : 0;
  }
  document.getElementById("count").textContent = `${done} of ${sets.length} labelled`;
}

function rows() {
  return sets.map((set) => ({ instance_id: set.dataset.instance, comment: set.dataset.comment, ...answers(set) }));
}

function keep() {
  show();
  try {
    localStorage.setItem(store, JSON.stringify({ who: who.value, rows: rows() }));
  } catch {
    // A browser that keeps nothing for files on disk: saving as a file works all the same.
  }
}

function restore() {
  let kept = null;
  try {
    kept = JSON.parse(localStorage.getItem(store));
  } catch {
    return;
  }
  if (!kept) return;
  who.value = kept.who || "";
  const known = new Map(kept.rows.map((row) => [row.instance_id + " " + row.comment, row]));
  for (const set of sets) {
    const row = known.get(set.dataset.instance + " " + set.dataset.comment);
    for (const name of row ? fields : []) set.querySelector(`[name="${name}"]`).value = row[name] || "";
  }
}

document.getElementById("sheet").addEventListener("input", keep);
document.getElementById("sheet").addEventListener("submit", (event) => event.preventDefault());
who.addEventListener("input", keep);
document.getElementById("save").addEventListener("click", () => {
  const text = rows().map((row) => JSON.stringify(row) + "\n").join("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
  link.download = `labels-${who.value.trim().replace(/[^A-Za-z0-9_-]+/g, "-") || "nobody"}.jsonl`;
  link.click();
  URL.revokeObjectURL(link.href);
});
restore();
show();

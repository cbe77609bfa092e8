"use strict";
(() => {
  // A field that leaves the rows of each list with a text in them; without this script all rows are there.
  const label = document.createElement("label");
  const field = document.createElement("input");
  field.type = "search";
  label.append("Show only rows with ", field);
  document.querySelector("main .figures").after(label);
  const rows = [...document.querySelectorAll(".worst li")];
  const folded = [...document.querySelectorAll("details")];
  field.addEventListener("input", () => {
    const text = field.value.toLowerCase();
    rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(text); });
    folded.forEach((details) => { details.open = text !== ""; });
  });
})();

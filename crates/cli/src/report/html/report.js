"use strict";
(() => {
  const CELL = 10;
  const SVG = "http://www.w3.org/2000/svg";

  const counted = (number, one, many) =>
    number.toLocaleString("en") + " " + (number === 1 ? one : many);

  // Names the cells of one picture, under the pointer, a finger or the arrow keys.
  const attend = (frame) => {
    const figure = frame.closest("figure");
    const svg = frame.querySelector("svg");
    const told = figure.querySelector(".told");
    told.hidden = false;
    const data = JSON.parse(figure.querySelector("script").textContent);
    const rows = data.needed.length;
    const columns = data.dirs.length;
    const cells = new Map();
    for (let at = 0; at < data.cells.length; at += 6) {
      const [row, column, opens, stats, hits, hwcaps] = data.cells.slice(at, at + 6);
      cells.set(row * columns + column, { opens, stats, hits, hwcaps });
    }
    const shape = (name) => {
      const rect = document.createElementNS(SVG, "rect");
      rect.setAttribute("class", name);
      rect.setAttribute("visibility", "hidden");
      svg.append(rect);
      return rect;
    };
    const across = shape("cross");
    const down = shape("cross");
    const mark = shape("mark");
    const place = (rect, x, y, width, height) => {
      for (const [name, value] of Object.entries({ x, y, width, height })) {
        rect.setAttribute(name, value);
      }
      rect.setAttribute("visibility", "visible");
    };

    const words = (row, column) => {
      const cell = cells.get(row * columns + column);
      if (!cell) return "not tried";
      const parts = [];
      if (cell.hits) parts.push("found");
      if (cell.opens) parts.push(counted(cell.opens, "failing open", "failing opens"));
      if (cell.stats) parts.push(counted(cell.stats, "failing stat", "failing stats"));
      if (cell.hwcaps) parts.push(cell.hwcaps.toLocaleString("en") + " of them in hwcaps subdirectories");
      return parts.join(", ");
    };
    const text = (tag, content) => {
      const element = document.createElement(tag);
      element.textContent = content;
      return element;
    };
    let at = null;
    const show = (row, column) => {
      row = Math.max(0, Math.min(rows - 1, row));
      column = Math.max(0, Math.min(columns - 1, column));
      if (at && at.row === row && at.column === column) return;
      at = { row, column };
      place(across, 0, row * CELL, columns * CELL, CELL);
      place(down, column * CELL, 0, CELL, rows * CELL);
      place(mark, column * CELL, row * CELL, CELL, CELL);
      told.replaceChildren(
        text("code", data.needed[row]), " in ", text("code", data.dirs[column]), ": ",
        text("b", words(row, column)), ". ",
        ...(data.by[row] === null ? ["Nothing asks for it here."]
          : ["Asked for by ", text("code", data.by[row]), "."]));
    };

    const point = (event) => {
      const box = svg.getBoundingClientRect();
      show(Math.floor((event.clientY - box.top) / box.height * rows),
        Math.floor((event.clientX - box.left) / box.width * columns));
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);

    // The next cell of the row in which something was tried, or the next one at all.
    const jump = (step) => {
      for (let column = at.column + step; column >= 0 && column < columns; column += step) {
        if (cells.has(at.row * columns + column)) return column;
      }
      return at.column + step;
    };
    frame.addEventListener("keydown", (event) => {
      const here = at || { row: 0, column: 0 };
      const to = at === null ? [0, 0] : {
        ArrowRight: [here.row, here.column + 1],
        ArrowLeft: [here.row, here.column - 1],
        ArrowDown: [here.row + 1, here.column],
        ArrowUp: [here.row - 1, here.column],
        PageDown: [here.row + 10, here.column],
        PageUp: [here.row - 10, here.column],
        Home: [here.row, 0],
        End: [here.row, columns - 1],
        n: [here.row, jump(1)],
        p: [here.row, jump(-1)],
      }[event.key];
      const known = ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "PageDown", "PageUp",
        "Home", "End", "n", "p"].includes(event.key);
      if (!known || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      show(to[0], to[1]);
      mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  };

  document.querySelectorAll(".storm-frame").forEach(attend);
  // A button beside each command; a page that is opened as a file has a clipboard too.
  document.querySelectorAll("pre").forEach((pre) => {
    const button = document.createElement("button");
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      const done = (text) => () => { button.textContent = text; };
      navigator.clipboard.writeText(pre.textContent.trim()).then(done("Copied"), done("Not copied"));
    });
    pre.before(button);
  });
  // Paper shows what is folded.
  const folded = document.querySelectorAll("details:not([open])");
  const fold = (open) => () => folded.forEach((details) => { details.open = open; });
  window.addEventListener("beforeprint", fold(true));
  window.addEventListener("afterprint", fold(false));
})();

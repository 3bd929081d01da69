"use strict";
(() => {
  // Copying works on every page; the rest where there are cells to filter.
  const select = (pre) => {
    const range = document.createRange();
    range.selectNodeContents(pre);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  for (const block of document.querySelectorAll(".copied")) {
    const button = block.querySelector("button");
    const pre = block.querySelector("pre");
    button.hidden = false;
    button.addEventListener("click", async () => {
      let done = false;
      try {
        await navigator.clipboard.writeText(pre.textContent);
        done = true;
      } catch {
        // Without a secure origin there is no clipboard but by the command; a selection alone loses the last newline.
        select(pre);
        const exact = (event) => {
          event.clipboardData.setData("text/plain", pre.textContent);
          event.preventDefault();
        };
        document.addEventListener("copy", exact, { once: true });
        done = document.execCommand("copy");
      }
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // Tables whose rows say in their data what they are; a row may have several verdicts.
  for (const form of document.querySelectorAll("form.rows")) {
    const rows = [...document.querySelectorAll("tr[data-loss_type]")];
    const fields = [...form.querySelectorAll("select")];
    const filter = () => {
      const fits = (row, { name, value }) => !value || JSON.parse(row.dataset[name]).includes(value);
      for (const row of rows) row.hidden = !fields.every((field) => fits(row, field));
      const shown = rows.filter((row) => !row.hidden).length;
      form.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
    };
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", filter);
    // Fields have their first values again only after the event.
    form.addEventListener("reset", () => setTimeout(filter));
    filter();
  }

  const form = document.querySelector("form.filters:not(.rows)");
  const list = document.getElementById("list");
  if (!form || !list) return;
  const cells = [...list.querySelectorAll("details.cell")];
  const squares = new Map([...document.querySelectorAll("td[data-cell]")].map((td) => [td.dataset.cell, td]));
  const names = ["target", "loss_type", "dtype", "verdict"];
  const original = new Map(cells.map((cell, place) => [cell, place]));

  const filter = () => {
    let shown = 0;
    for (const cell of cells) {
      const fits = names.every((name) => !form[name].value || form[name].value === cell.dataset[name]);
      cell.hidden = !fits;
      shown += fits;
      squares.get(cell.querySelector(".body").id)?.classList.toggle("off", !fits);
    }
    for (const row of document.querySelectorAll(".grid tbody tr")) {
      row.hidden = !row.querySelector("td[data-cell]:not(.off)");
    }
    for (const target of document.querySelectorAll("section.target")) {
      target.hidden = target.querySelector("td[data-cell]") && !target.querySelector("td[data-cell]:not(.off)");
    }
    document.getElementById("none").hidden = shown > 0;
    form.querySelector("output").textContent = `${shown} of ${cells.length} cells`;
    document.body.classList.toggle("by-bits", form.colour.value === "bits");
  };
  const sort = () => {
    const key = form.sort.value;
    const order = {
      rank: (a, b) => a.dataset.rank - b.dataset.rank,
      error: (a, b) => b.dataset.error - a.dataset.error,
    }[key] ?? ((a, b) => a.dataset[key].localeCompare(b.dataset[key]));
    list.append(...[...cells].sort((a, b) => order(a, b) || original.get(a) - original.get(b)));
  };
  const open = () => {
    const body = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const cell = body?.closest("details.cell");
    if (!cell) return;
    if (cell.hidden) {
      for (const name of names) form[name].value = "";
      filter();
    }
    cell.open = true;
    cell.scrollIntoView();
    body.focus({ preventScroll: true });
  };

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => (event.target.name === "sort" ? sort() : filter()));
  // Fields have their first values again only after the event.
  form.addEventListener("reset", () => setTimeout(() => { filter(); sort(); }));
  addEventListener("hashchange", open);
  // A link to where the address already points changes no hash.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) open();
  });
  filter();
  open();
})();

// Search without a server: `sections` comes from search_index.js, so that it works on pages opened from disk.
const input = document.querySelector(".search input");
const found = document.querySelector(".found");

function find(words) {
  const scored = [];
  for (const [title, page, url, text] of sections) {
    const head = (title + " " + page).toLowerCase();
    if (!words.every((w) => head.includes(w) || text.includes(w))) continue;
    const inTitle = words.filter((w) => title.toLowerCase().includes(w)).length;
    scored.push([10 * inTitle + (title.toLowerCase().startsWith(words[0]) ? 5 : 0) - title.length / 100, title, page, url]);
  }
  return scored.sort((a, b) => b[0] - a[0]).slice(0, 12);
}

function show() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  found.hidden = words.length === 0;
  if (found.hidden) return;
  const hits = find(words);
  for (const [, title, page, url] of hits) {
    const link = document.createElement("a");
    link.href = input.dataset.base.replace(/\/?$/, "/") + url;
    link.textContent = title;
    const where = document.createElement("small");
    where.textContent = title === page ? "" : page;
    link.append(where);
    const line = document.createElement("li");
    line.append(link);
    found.append(line);
  }
  if (!hits.length) found.append(Object.assign(document.createElement("li"), { textContent: "Nothing found" }));
}

input.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  }
  if (event.key === "Escape") {
    input.value = "";
    show();
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("header")) found.hidden = true;
});

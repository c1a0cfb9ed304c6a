// Search, folding and "try it". The page is readable without this script.

const articles = [...document.querySelectorAll("main article")];
const contents = document.querySelector("nav > ul");

// A link to a folded operation unfolds it.
function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target?.querySelector("details") ?? target?.closest("details");
  if (fold) { fold.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", open);
open();

// Unfolds the operation that the address names.
for (const summary of document.querySelectorAll("summary")) {
  summary.addEventListener("click", () => {
    if (!summary.parentElement.open) history.replaceState(null, "", `#${summary.closest("article").id}`);
  });
}

// --- search ---------------------------------------------------------------

const search = document.getElementById("search"), hits = document.getElementById("hits");
search.parentElement.hidden = false;

const index = articles.map((article) => {
  const title = article.querySelector("h2, h3").textContent;
  return { article, title, words: title.toLowerCase().split(/\W+/), path: article.querySelector(".path")?.textContent.toLowerCase() ?? "", text: article.textContent.toLowerCase() };
});

// rank orders the hits: words of the title before parts of it, then the path, then the text. 0 means no hit.
function rank(entry, words) {
  let sum = 0;
  for (const word of words) {
    const at = entry.words.indexOf(word);
    if (at >= 0) sum += 100 - Math.min(at, 50);
    else if (entry.title.toLowerCase().includes(word)) sum += 20;
    else if (entry.path.includes(word)) sum += 10;
    else if (entry.text.includes(word)) sum += 1;
    else return 0;
  }
  return sum;
}

function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const ranked = index.map((entry) => ({ entry, rank: rank(entry, words) }));
  for (const { entry, rank } of ranked) entry.article.hidden = words.length > 0 && rank === 0;
  for (const section of document.querySelectorAll("main > section")) {
    const own = [...section.querySelectorAll("article")];
    section.hidden = words.length > 0 && own.every((a) => a.hidden);
  }
  const found = words.length ? ranked.filter(({ rank }) => rank > 0).sort((a, b) => b.rank - a.rank) : [];
  hits.replaceChildren(...found.slice(0, 50).map(({ entry }) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = `#${entry.article.id}`;
    link.textContent = entry.title;
    item.append(link);
    return item;
  }));
  hits.hidden = found.length === 0;
  contents.hidden = words.length > 0;
  document.getElementById("found").textContent = words.length ? `${found.length} found` : "";
}
search.addEventListener("input", find);
addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea, select")) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape" && search.value) { search.value = ""; find(); search.focus(); }
  if (event.key === "Enter" && event.target === search) hits.querySelector("a")?.click();
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const places = [search, ...hits.querySelectorAll("a")], at = places.indexOf(event.target);
    if (at < 0) return;
    event.preventDefault();
    places[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
  }
});

// --- folding --------------------------------------------------------------

const all = document.getElementById("unfold");
all.hidden = false;
all.addEventListener("click", () => {
  const closed = all.textContent === "Expand all";
  for (const fold of document.querySelectorAll("details")) fold.open = closed;
  all.textContent = closed ? "Collapse all" : "Expand all";
});

// --- samples --------------------------------------------------------------

let language = "curl"; // shown for each operation that has a sample in it

function choose(samples) {
  const figures = [...samples.querySelectorAll("figure")];
  const shown = figures.find((f) => f.dataset.language === language) ?? figures[0];
  for (const f of figures) f.hidden = f !== shown;
  for (const b of samples.querySelectorAll("[aria-pressed]")) b.setAttribute("aria-pressed", b.value === shown.dataset.language);
}

function button(text, click) {
  const b = Object.assign(document.createElement("button"), { type: "button", textContent: text });
  b.addEventListener("click", () => click(b));
  return b;
}

async function copy(b) {
  const code = b.closest(".samples").querySelector("figure:not([hidden]) code");
  getSelection().selectAllChildren(code);
  try { await navigator.clipboard.writeText(code.textContent); } catch { return; } // the text is selected instead
  b.textContent = "Copied";
  setTimeout(() => { b.textContent = "Copy"; }, 1500);
}

// A bar with the language and a copy button is added to samples when they are unfolded.
function addBar(samples) {
  if (samples.querySelector(".bar")) return choose(samples);
  const bar = Object.assign(document.createElement("div"), { className: "bar" });
  for (const f of samples.querySelectorAll("figure")) {
    const b = button(f.querySelector("figcaption").textContent, () => { language = b.value; document.querySelectorAll(".samples:has(.bar)").forEach(choose); });
    b.value = f.dataset.language;
    b.setAttribute("aria-pressed", "false");
    bar.append(b);
  }
  bar.append(button("Copy", copy));
  samples.prepend(bar);
  choose(samples);
}
for (const samples of document.querySelectorAll("header .samples, details[open] .samples")) addBar(samples);
document.addEventListener("toggle", (event) => event.target.querySelectorAll(".samples").forEach(addBar), true);

// --- try it ---------------------------------------------------------------

const shown = ["x-block-height", "cache-status", "age", "etag", "retry-after", "ratelimit", "x-unknown-parameters", "link", "content-encoding"];

const pending = new Map(); // AbortController of the running request, by form

// readText passes the text received so far to show, again whenever more arrives; of a long stream only the newest part.
async function readText(response, show) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text = (text + value).slice(-100_000);
    show(text);
  }
}

async function ask(form) {
  const { target, body, key } = Object.fromEntries(new FormData(form));
  const outcome = form.nextElementSibling, answer = outcome.nextElementSibling, button = form.querySelector("button"), ended = new AbortController();
  const report = (text, ok) => { outcome.textContent = text; outcome.classList.toggle("bad", !ok); };
  pending.set(form, ended);
  answer.hidden = true;
  report("Waiting for the response", true);
  const headers = {};
  if (key) headers["X-Api-Key"] = key;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const began = performance.now();
  try {
    const url = new URL(target.replace(/^\//, ""), new URL(".", location.href));
    const response = await fetch(url, { method: body === undefined ? "GET" : "POST", headers, body, cache: "no-store", signal: ended.signal });
    const streams = response.headers.get("content-type")?.startsWith("text/event-stream");
    const text = streams ? "" : await response.text(), took = performance.now() - began;
    const lines = shown.filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`);
    const show = (text) => { answer.textContent = [...lines, "", text].join("\n").trimStart(); };
    report(`${response.status} ${response.statusText}, ${took.toFixed(0)} ms`, response.ok);
    answer.hidden = false;
    let pretty = text;
    try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { /* as it came */ }
    show(pretty);
    if (streams) {
      button.textContent = "Stop";
      await readText(response, show);
    }
  } catch (error) {
    if (!ended.signal.aborted) report(`No response: ${error.message}`, false);
  }
  if (pending.get(form) === ended) {
    pending.delete(form);
    button.textContent = "Send";
  }
}

// targetOf returns the path and query that the fields of a form give.
function targetOf(form) {
  const query = new URLSearchParams();
  let path = form.dataset.path;
  for (const { value, dataset: { name, in: place } } of form.querySelectorAll("[data-in]")) {
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value).replaceAll("%2F", "/"));
    else if (value) query.append(name, value);
  }
  return query.size ? `${path}?${query}` : path;
}

for (const form of document.querySelectorAll("form.try")) {
  form.hidden = false;
  form.addEventListener("input", (event) => {
    if (event.target.dataset.in) form.elements.target.value = targetOf(form);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const stopped = form.querySelector("button").textContent === "Stop";
    pending.get(form)?.abort();
    if (!stopped) ask(form);
  });
}

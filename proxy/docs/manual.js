// Search, folding and trying. Without it the page is the same to read.

const articles = [...document.querySelectorAll("main article")];
const entries = new Map([...document.querySelectorAll("nav li li a")].map((a) => [a.hash.slice(1), a.parentElement]));
const texts = new Map(articles.map((a) => [a, a.textContent.toLowerCase()]));

// A link to something folded opens it.
function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target?.querySelector("details") ?? target?.closest("details");
  if (fold) { fold.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", open);
open();

// What is unfolded is what the address names.
for (const summary of document.querySelectorAll("summary")) {
  summary.addEventListener("click", () => {
    if (!summary.parentElement.open) history.replaceState(null, "", `#${summary.closest("article").id}`);
  });
}

// --- search ---------------------------------------------------------------

const search = document.getElementById("search");
search.parentElement.hidden = false;

function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const article of articles) {
    const hit = words.every((word) => texts.get(article).includes(word));
    article.hidden = !hit;
    if (entries.has(article.id)) entries.get(article.id).hidden = !hit;
    if (hit) found++;
  }
  for (const section of document.querySelectorAll("main > section")) {
    const own = [...section.querySelectorAll("article")];
    section.hidden = words.length > 0 && own.every((a) => a.hidden);
  }
  document.getElementById("found").textContent = words.length ? `${found} found` : "";
}
search.addEventListener("input", find);
addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea")) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape" && event.target === search) { search.value = ""; find(); }
});

// --- folding --------------------------------------------------------------

const all = document.getElementById("unfold");
all.hidden = false;
all.addEventListener("click", () => {
  const closed = all.textContent === "Unfold all";
  for (const fold of document.querySelectorAll("details")) fold.open = closed;
  all.textContent = closed ? "Fold all" : "Unfold all";
});

// --- samples --------------------------------------------------------------

let language = "curl"; // that is shown wherever there is a sample of it

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
  try { await navigator.clipboard.writeText(code.textContent); } catch { return; } // it is selected
  b.textContent = "Copied";
  setTimeout(() => { b.textContent = "Copy"; }, 1500);
}

// A bar chooses the language and copies; samples get theirs when they are unfolded.
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

// --- trying ---------------------------------------------------------------

const shown = ["x-block-height", "cache-status", "age", "etag", "retry-after", "ratelimit", "x-unknown-parameters", "link", "content-encoding"];

const asked = new Map(); // by form, what ends the request under way

// said is a text as it comes, for as long as it comes; of a long stream the newest part.
async function said(response, tell) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text = (text + value).slice(-100_000);
    tell(text);
  }
}

async function ask(form) {
  const { target, body, key } = Object.fromEntries(new FormData(form));
  const answer = form.nextElementSibling, button = form.querySelector("button"), ended = new AbortController();
  asked.set(form, ended);
  answer.hidden = false;
  answer.textContent = "…";
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
    const tell = (text) => { answer.textContent = [`${response.status} ${response.statusText}, ${took.toFixed(0)} ms`, ...lines, "", text].join("\n"); };
    let pretty = text;
    try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { /* as it came */ }
    tell(pretty);
    if (streams) {
      button.textContent = "Stop";
      await said(response, tell);
    }
  } catch (error) {
    if (!ended.signal.aborted) answer.textContent = `No answer: ${error.message}`;
  }
  if (asked.get(form) === ended) {
    asked.delete(form);
    button.textContent = "Send";
  }
}

for (const form of document.querySelectorAll("form.try")) {
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const stopped = form.querySelector("button").textContent === "Stop";
    asked.get(form)?.abort();
    if (!stopped) ask(form);
  });
}

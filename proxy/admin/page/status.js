// The status page: reads the stream of samples and draws it.

import { TimeChart, bar, drawDistribution, drawProgress, drawRange, longest, node, setSpan } from "./charts.js";
import * as format from "./format.js";

const $ = (id) => document.getElementById(id);
const outcomes = ["hit", "stale", "collapsed", "miss", "stale_error", "answered", "refused", "abandoned", "failed"];
const outcomeNames = {
  hit: "hit", stale: "stale, being refreshed", collapsed: "waited for the same read", miss: "read from upstream",
  stale_error: "stale, upstream failed", answered: "not cached", refused: "refused", abandoned: "client disconnected", failed: "failed",
};

const aheadNames = [ // with the colours of outcomes that are alike
  ["origin", "read from upstream", "miss"], ["shared", "read by another replica", "collapsed"], ["needless", "client was faster", "hit"],
  ["yielded", "skipped, upstream busy", "stale"], ["failed", "failed", "failed"],
];

let samples = [];
let last = null; // the newest line of the stream

const idle = "No requests in ten minutes";

const charts = {
  pace: new TimeChart($("blocks"), { format: (v) => `${format.rate(v)} s`, empty: "The newest block is unknown" }),
  hits: new TimeChart($("hits-chart"), { format: format.percentAxis, fixed: 1, empty: "No request for a cached path in ten minutes" }),
  perkey: new TimeChart($("perkey-chart"), { format: (v) => v.toFixed(2), max: 1.5, reference: 1, empty: "No entry was replaced by a newer one in ten minutes" }),
  answers: new TimeChart($("answers-chart"), { stacked: true, format: format.rate, empty: idle }),
  latency: new TimeChart($("latency-chart"), { format: format.seconds, empty: idle }),
  ahead: new TimeChart($("ahead-chart"), { stacked: true, format: format.rate }),
  redis: new TimeChart($("redis-chart"), { format: format.seconds, empty: "No exchange in ten minutes" }),
  store: new TimeChart($("store-chart"), { format: format.rate, empty: "Nothing was indexed or listed in ten minutes", rates: true }),
  provider: new TimeChart($("provider-chart"), { stacked: true, format: format.rate, empty: "No collection was looked up in ten minutes" }),
  memory: new TimeChart($("memory-chart"), { format: format.bytes, unit: 2 ** 20 }),
  connections: new TimeChart($("connections-chart"), { format: format.whole, max: 10 }),
  cpu: new TimeChart($("cpu-chart"), { format: format.cores, max: .1 }),
};
const nodeViews = new Map();

// --- what the charts show -------------------------------------------------

const times = () => samples.map((s) => s.at);
const column = (pick) => samples.map(pick);
const color = (name) => `var(--c-${name})`;
const blank = (text) => document.createTextNode(text ?? "–");

function say(id, text, raw) {
  const element = $(id);
  element.replaceChildren(...[].concat(text).map((t) => typeof t === "string" ? blank(t) : t));
  if (raw !== undefined) element.dataset.value = raw;
}

function hero(id, text, unit, raw) {
  say(id, unit ? [text, node("small", {}, unit)] : text, raw);
}

function legend(id, rows) {
  $(id).replaceChildren(...rows.map(([name, tone, text]) => {
    const swatch = node("span", { class: "swatch" });
    swatch.style.setProperty("background", tone);
    return node("li", {}, swatch, name, text === null ? null : node("b", {}, text));
  }));
}

// trailing combines the samples of the last window milliseconds before each sample.
function trailing(window, combine) {
  let from = 0;
  return samples.map((s, i) => {
    while (samples[from].at < s.at - window) from++;
    return combine(samples.slice(from, i + 1), s);
  });
}

function drawTip(state) {
  const now = samples.at(-1);
  hero("tip", now.tip ? format.whole(now.tip) : "unknown", null, now.tip);
  // Seconds per block over the last 20 s or, if none arrived, since the last one.
  let changed = samples[0].at;
  const pace = trailing(20_000, (window, s) => {
    const i = samples.indexOf(s);
    if (i > 0 && s.tip > samples[i - 1].tip) changed = s.at;
    const from = window.find((w) => w.tip > 0);
    if (!from || from === s) return null;
    const blocks = s.tip - from.tip, took = (s.at - from.at) / 1000;
    return blocks > 0 ? took / blocks : Math.max(took, (s.at - changed) / 1000);
  });
  say("pace", now.tip ? `${now.interval.toFixed(1)} s` : "–");
  const ages = (state.nodes ?? []).map((n) => goDuration(n.block_age)).filter((v) => v > 0);
  const age = ages.length ? Math.min(...ages) : null;
  say("tip-age", age === null ? "–" : format.seconds(age));
  $("tip-age").className = age !== null && age > Math.max(15, 6 * now.interval) ? "bad" : "";
  charts.pace.set(times(), [{ name: "block time", color: "var(--accent)", values: pace }]);
}

// quotient divides the sum of one figure over samples by that of another; null if the other is 0.
function quotient(window, figure, by) {
  const sum = (name) => window.reduce((all, s) => all + s[name], 0), divisor = sum(by);
  return divisor ? sum(figure) / divisor : null;
}

function drawHits() {
  const all = quotient(samples, "hits", "lookups");
  hero("hits", all === null ? "–" : format.percent(all), all === null ? "no requests" : null, all);
  charts.hits.set(times(), [{ name: "hits", color: "var(--c-hit)", values: trailing(10_000, (window) => quotient(window, "hits", "lookups")) }]);
}

function drawPerKey() {
  const ratio = (window) => quotient(window, "calls", "renewals");
  const all = ratio(samples);
  hero("perkey", all === null ? "–" : all.toFixed(2), all === null ? "no reads" : "by this replica");
  charts.perkey.set(times(), [{ name: "requests", color: "var(--c-miss)", values: trailing(60_000, ratio) }]);
}

function drawAnswers() {
  const now = samples.at(-1), sum = (s) => Object.values(s.answers).reduce((a, b) => a + b, 0);
  const seen = outcomes.filter((o) => samples.some((s) => s.answers[o] > 0));
  say("answers", format.rate(sum(now)), last.totals.requests);
  charts.answers.set(times(), seen.map((o) => ({ name: outcomeNames[o], color: color(o), values: column((s) => s.answers[o] ?? 0) })));
  legend("answers-legend", seen.map((o) => [outcomeNames[o], color(o), format.rate(now.answers[o] ?? 0)]));
}

function drawBehind() {
  const bounds = last.bounds ?? [];
  const columns = [...bounds, Infinity].map((bound, i) => {
    const from = i === 0 ? 0 : bounds[i - 1] + 1;
    return {
      name: bound === Infinity ? `>${bounds.at(-1)}` : from >= bound ? `${bound}` : `${from}–${bound}`,
      count: samples.reduce((sum, s) => sum + (s.behind?.[i] ?? 0), 0),
    };
  });
  while (columns.length > 5 && columns.at(-1).count === 0) columns.pop();
  drawDistribution($("behind-chart"), bounds.length ? columns : []);
}

function drawLatency() {
  const now = samples.findLast((s) => s.p50 !== null);
  charts.latency.set(times(), [
    { name: "p99", color: "var(--c-miss)", values: column((s) => s.p99) },
    { name: "median", color: "var(--accent)", values: column((s) => s.p50) }]);
  legend("latency-legend", [
    ["median", "var(--accent)", now ? format.seconds(now.p50) : "–"],
    ["p99", "var(--c-miss)", now ? format.seconds(now.p99) : "–"]]);
}

// --- nodes ----------------------------------------------------------------

// goDuration reads 1m2.5s, in seconds.
function goDuration(text) {
  let sum = 0;
  for (const [, n, unit] of (text ?? "").matchAll(/([\d.]+)(h|ms|µs|m|s)/g)) sum += n * { h: 3600, m: 60, s: 1, ms: 1e-3, "µs": 1e-6 }[unit];
  return sum;
}

function nodeTone(n) {
  if (n.breaker === "open" || n.last_error && !n.height) return ["bad", "unreachable"];
  if (n.catching_up) return ["warn", "catching up"];
  if (n.aside) return ["warn", "heights not trusted"];
  if (n.late) return ["warn", "CometBFT is late"];
  if (n.breaker === "half-open") return ["warn", "retrying"];
  if (n.last_error) return ["warn", "last request failed"];
  return ["good", n.connected ? "connected" : "ok"];
}

function nodeView(name) {
  if (nodeViews.has(name)) return nodeViews.get(name);
  const view = {
    root: node("article", { class: "node", "data-node": name }), title: node("h3", {}, name), state: node("span", { class: "pill" }),
    rail: node("div", { class: "rail" }), facts: node("p", { class: "facts" }), spark: node("div", { class: "chart spark" }), error: node("p", { class: "error" }),
  };
  view.root.append(node("header", {}, view.title, view.state), view.spark, view.rail, view.facts, view.error);
  view.root.append(view.error);
  nodeViews.set(name, view);
  $("nodes").append(view.root);
  view.chart = new TimeChart(view.spark, { bare: true, format: (v) => `${format.rate(v)}/s`, max: 1 });
  return view;
}

function drawNodes(state) {
  const now = samples.at(-1), known = state.nodes ?? [];
  $("nodes-card").hidden = known.length === 0;
  for (const [name, view] of nodeViews) {
    if (!known.some((n) => n.name === name)) { view.root.remove(); nodeViews.delete(name); }
  }
  for (const n of known) {
    const view = nodeView(n.name), figures = now.nodes?.[n.name] ?? { rate: 0, mean: 0, in_flight: 0, limit: 0, queue: 0, wait: 0, lag: 0 };
    const [tone, text] = nodeTone(n);
    view.state.className = `pill ${tone}`;
    view.state.replaceChildren(text);
    const lag = n.height ? figures.lag : null;
    drawRange(view.rail, n.lowest ?? 0, n.height, now.tip, [
      n.lowest > 1 ? `from ${format.whole(n.lowest)}` : "", n.height ? `${format.whole(n.height)}${lag ? `, ${format.whole(lag)} behind` : ""}` : "no height"]);
    const mean = samples.findLast((s) => s.nodes?.[n.name]?.mean > 0)?.nodes[n.name].mean;
    const fact = (name, value) => node("span", {}, `${name} `, node("b", {}, value));
    view.facts.replaceChildren(
      fact("requests", `${format.rate(figures.rate)}/s`), fact("mean time", mean ? format.seconds(mean) : "–"), fact("in flight", format.whole(figures.in_flight)),
      fact("limit", format.whole(figures.limit)), fact("waiting", format.whole(figures.queue)), fact("expected wait", format.seconds(figures.wait)), fact("chain", n.chain || "–"),
      ...["rpc", "grpc"].filter((name) => name in n).map((name) => fact(interfaceNames[name], ["ok", "off"].includes(n[name]) ? breakerText[n[name]] : "unreachable")),
      ...(n.tx_index ? [fact("transaction index", n.tx_index)] : []));
    view.error.replaceChildren(n.last_error ?? "");
    view.error.hidden = !n.last_error;
    view.chart.set(times(), [{ name: "requests", color: "var(--c-miss)", values: column((s) => s.nodes?.[n.name]?.rate ?? null) }]);
  }
}

function drawAhead() {
  $("ahead-card").hidden = !samples.some((s) => Object.values(s.ahead ?? {}).some((rate) => rate > 0));
  const sum = (result) => samples.reduce((all, s) => all + (s.ahead?.[result] ?? 0), 0), read = sum("origin"), now = samples.at(-1).ahead ?? {};
  say("ahead", read ? `${format.percent(Math.max(0, 1 - sum("unused") / read))} used` : "–");
  const seen = aheadNames.filter(([result]) => sum(result) > 0);
  charts.ahead.set(times(), seen.map(([result, name, tone]) => ({ name, color: color(tone), values: column((s) => s.ahead?.[result] ?? 0) })));
  legend("ahead-legend", seen.map(([result, name, tone]) => [`${name}, per second`, color(tone), format.rate(now[result] ?? 0)]));
}

// --- routes and parts -----------------------------------------------------

function drawRoutes() {
  const list = (id, rows, pick, text, tone, empty = idle) => {
    const most = Math.max(...rows.map(pick), 1e-12);
    $(id).replaceChildren(...rows.slice(0, 7).map((r) => bar(r.name, text(r), pick(r) / most, tone)));
    if (!rows.length) $(id).append(node("li", { class: "empty" }, empty));
  };
  list("busy", last.routes, (r) => r.rate, (r) => format.rate(r.rate), "var(--accent)");
  const slow = last.routes.filter((r) => r.miss > 0 && r.name !== "none").sort((a, b) => b.miss - a.miss);
  const sums = {};
  for (const s of samples) for (const [name, rate] of Object.entries(s.keys ?? {})) sums[name] = (sums[name] ?? 0) + rate / samples.length;
  const keys = Object.entries(sums).map(([name, rate]) => ({ name, rate })).sort((a, b) => b.rate - a.rate);
  $("keys-card").hidden = !keys.length;
  list("keys", keys, (k) => k.rate, (k) => format.rate(k.rate), "var(--accent)");
  list("slow", slow, (r) => r.miss, (r) => format.seconds(r.miss), "var(--c-miss)", "No misses in ten minutes");
}

const breakerTone = { closed: "good", ok: "good", off: "", "half-open": "warn", trying: "warn", open: "bad", failing: "bad", unauthorized: "bad" };
const breakerText = { closed: "ok", ok: "ok", off: "off", "half-open": "retrying", trying: "retrying", open: "failing, not used", failing: "failing", rate_limited: "rate limited", unauthorized: "API key rejected" };

const indexerTone = { running: "good", unverified: "good", waiting: "good", incomplete: "warn" };
const indexerText = { running: "runs here", unverified: "runs here", waiting: "runs elsewhere", incomplete: "runs, counts too low" };

const interfaceNames = { rest: "REST", rpc: "CometBFT RPC", grpc: "gRPC", grpc_web: "gRPC-Web" };

function drawParts(state) {
  const rows = [];
  const part = (name, tone, text) => rows.push(node("li", {}, node("span", { title: name }, name), node("span", { class: `pill ${tone}` }, text)));
  const breaker = (name, value) => part(name, breakerTone[value] ?? "warn", breakerText[value] ?? value);
  for (const n of state.nodes ?? []) breaker(`Node ${n.name}`, n.breaker);
  for (const [name, at] of Object.entries(state.interfaces ?? {})) {
    part(`${interfaceNames[name] ?? name} listener`, at === "none" ? "" : "good", at === "none" ? "not served" : `at ${at}`);
  }
  if (state.redis) breaker("Redis", state.redis);
  if (state.metadata) breaker("Metadata provider", state.metadata);
  if (state.store) part("Collection store", breakerTone[state.store], state.store === "failing" ? "unreachable" : breakerText[state.store]);
  if (state.certificate) {
    const days = Math.floor((Date.parse(state.certificate.expires) - Date.now()) / 86400e3);
    part("Certificate", { ok: "good", expiring: "warn" }[state.certificate.state] ?? "bad", state.certificate.state === "expired" ? "expired" : `expires in ${days} d`);
  }
  if (state.index) part("Indexer", indexerTone[state.index.state] ?? "bad", indexerText[state.index.state] ?? state.index.state.replaceAll("_", " "));
  $("parts").replaceChildren(...rows);
  $("parts-card").hidden = rows.length === 0;
}

function drawRedis(state) {
  $("redis-card").hidden = !state.redis || state.redis === "off";
  const now = samples.at(-1), time = samples.findLast((s) => s.redis_time !== null)?.redis_time;
  say("redis", time ? format.seconds(time) : breakerText[state.redis] ?? "–");
  charts.redis.set(times(), [{ name: "median exchange time", color: "var(--accent)", values: column((s) => s.redis_time) }]);
  legend("redis-legend", [["exchanges per second", "var(--accent)", format.rate(now.redis_rate)], ["failed per second", "var(--bad)", format.rate(now.redis_errors)]]);
}

function drawStore(state) {
  const now = samples.at(-1), index = state.index;
  $("store-card").hidden = !index && !samples.some((s) => s.store_rate > 0 || s.logs > 0);
  say("store", index?.block ? `block ${format.whole(index.block)}` : "–");
  const lines = [];
  if (index?.blocks_left) {
    const rail = node("div", { class: "progress" });
    drawProgress(rail, index.block / (index.block + index.blocks_left));
    lines.push(rail, node("p", {}, `${format.whole(index.blocks_left)} blocks left`));
  } else if (index?.block) {
    lines.push(node("p", {}, `indexed up to ${index.behind || "0s"} ago`));
  }
  if (index?.error) lines.push(node("p", { class: "bad" }, index.error));
  $("index").replaceChildren(...lines);
  const time = samples.findLast((s) => s.store_time !== null)?.store_time;
  charts.store.set(times(), [
    { name: "indexed events", color: "var(--accent)", values: column((s) => s.logs) },
    { name: "listings", color: "var(--c-miss)", values: column((s) => s.store_rate) }]);
  legend("store-legend", [
    ["indexed events per second", "var(--accent)", format.rate(now.logs)],
    ["listings per second", "var(--c-miss)", format.rate(now.store_rate) + (time ? `, ${format.seconds(time)} each` : "")]]);
}

function drawProvider(state) {
  $("provider-card").hidden = !state.metadata || state.metadata === "off";
  const now = samples.at(-1), names = [...new Set(["ok", ...samples.flatMap((s) => Object.keys(s.provider ?? {}))])].sort();
  const tone = (name) => name === "ok" ? "var(--accent)" : name === "rate_limited" ? "var(--warn)" : "var(--bad)";
  say("provider", breakerText[state.metadata] ?? state.metadata ?? "–");
  $("provider-error").hidden = !state.metadata_error;
  $("provider-error").textContent = state.metadata_error ?? "";
  charts.provider.set(times(), names.map((n) => ({ name: n, color: tone(n), values: column((s) => s.provider?.[n] ?? 0) })));
  legend("provider-legend", names.map((n) => [`${n}, per second`, tone(n), format.rate(now.provider?.[n] ?? 0)]));
}

function drawProcess() {
  const now = samples.at(-1), limits = last.limits;
  say("memory", format.bytes(now.resident), now.resident);
  charts.memory.set(times(), [
    { name: "process", color: "var(--c-collapsed)", values: column((s) => s.resident) },
    { name: "heap", color: "var(--c-miss)", values: column((s) => s.heap) },
    { name: "entries", color: "var(--accent)", values: column((s) => s.memory) }]);
  legend("memory-legend", [
    ["process", "var(--c-collapsed)", null], ["heap", "var(--c-miss)", format.bytes(now.heap)],
    [`${format.whole(now.entries)} entries`, "var(--accent)", format.bytes(now.memory) + (limits.memory ? ` of ${format.bytes(limits.memory)}` : "")],
    ["evicted per second", "var(--grid)", format.rate(now.evictions)]]);
  say("connections", format.whole(now.connections) + (limits.connections ? ` of ${format.whole(limits.connections)}` : ""), now.connections);
  charts.connections.set(times(), [
    { name: "connections", color: "var(--accent)", values: column((s) => s.connections) },
    { name: "waiting for upstreams", color: "var(--c-miss)", values: column((s) => s.waiting) }]);
  legend("connections-legend", [
    ["open", "var(--accent)", format.whole(now.connections)], ["requests waiting for upstreams", "var(--c-miss)", format.whole(now.waiting)],
    ...[["RPC", now.rpc], ["WebSockets", now.sockets], ["gRPC", now.grpc]].filter(([, open]) => open).map(([name, open]) => [name, "var(--grid)", format.whole(open)])]);
  say("cpu", `${format.cores(now.cpu)} cores`);
  charts.cpu.set(times(), [{ name: "cores", color: "var(--accent)", values: column((s) => s.cpu) }]);
  legend("cpu-legend", [["goroutines", "var(--grid)", format.whole(now.goroutines)]]);
}

function drawHead(state) {
  const problems = Object.entries({ ...state.degraded, ...state.problems }).map(([part, text]) => `${part}: ${text}`);
  $("ready").className = `pill live ${last.ready ? "good" : "bad"}`;
  $("ready").replaceChildren(last.ready ? "ready" : "not ready");
  $("problems").hidden = problems.length === 0;
  $("problems").replaceChildren(problems.join("\n"));
  $("where").replaceChildren(location.host);
  $("version").replaceChildren(last.version);
  $("uptime").replaceChildren(last.started ? `up ${format.duration(Date.now() / 1000 - last.started)}` : "");
  showDocs(state);
  document.title = `${last.ready ? "" : "✕ "}tipcache ${samples.at(-1).tip || ""}`;
}

// showDocs links to /docs on the public listener. An unspecified address is this host's.
function showDocs(state) {
  const at = state.interfaces?.rest, link = $("docs");
  link.hidden = !at || at === "none";
  if (link.hidden) return;
  const port = at.slice(at.lastIndexOf(":") + 1), host = at.slice(0, -port.length - 1);
  link.href = `${state.certificate ? "https" : "http"}://${["0.0.0.0", "[::]", ""].includes(host) ? location.hostname : host}:${port}/docs`;
}

$("config-card").addEventListener("toggle", async () => {
  if (!$("config-card").open) return;
  try {
    const response = await fetch("/admin/config", { headers: authorization(), cache: "no-store" });
    $("config").textContent = response.ok ? await response.text() : (await response.json()).error;
  } catch (error) {
    $("config").textContent = error.message;
  }
});

function draw() {
  if (!last || !samples.length) return;
  setSpan(times());
  const state = last.state ?? {}, served = (state.interfaces?.rest ?? "none") !== "none" || last.bounds?.length;
  for (const id of ["hits", "perkey", "answers", "behind", "latency", "busy", "slow", "connections"]) $(`${id}-card`).hidden = !served;
  $("tip-card").hidden = !("nodes" in state);
  $("board").hidden = false;
  drawHead(state);
  drawTip(state);
  drawHits();
  drawPerKey();
  drawAnswers();
  drawBehind();
  drawLatency();
  drawNodes(state);
  drawRoutes();
  drawAhead();
  drawParts(state);
  drawRedis(state);
  drawStore(state);
  drawProvider(state);
  drawProcess();
  document.documentElement.dataset.drawn = samples.length;
}

// --- the stream -----------------------------------------------------------

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n")) >= 0; text = text.slice(end + 1)) yield text.slice(0, end);
  }
}

function take(update) {
  const newest = samples.at(-1)?.at ?? 0;
  samples.push(...update.samples.filter((s) => s.at > newest));
  const cut = samples.at(-1).at - longest;
  samples = samples.filter((s) => s.at >= cut);
  last = update;
}

function authorization() {
  const token = sessionStorage.getItem("tipcache.token");
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function read() {
  const response = await fetch("/status/stream", { headers: authorization(), cache: "no-store" });
  if (response.status === 401) return false;
  if (!response.ok) throw new Error((await response.json().catch(() => null))?.error ?? `${response.status}`);
  $("ask").hidden = true;
  let first = true;
  for await (const line of lines(response.body)) {
    const update = JSON.parse(line);
    if (first) samples = []; // the process may be another than before
    first = false;
    take(update);
    draw();
  }
  return true;
}

function lost(text) {
  $("ready").className = "pill warn";
  $("ready").replaceChildren(text);
}

async function follow() {
  for (let pause = 1000; ; pause = Math.min(pause * 1.6, 10_000)) {
    try {
      if (!await read()) {
        $("board").hidden = true;
        $("refused").hidden = !sessionStorage.getItem("tipcache.token");
        $("ask").hidden = false;
        lost("token required");
        return;
      }
      pause = 1000;
      lost("reconnecting");
    } catch (error) {
      lost(error instanceof TypeError ? "unreachable" : error.message);
    }
    await new Promise((done) => setTimeout(done, pause));
  }
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("tipcache.token", $("token").value.trim());
  follow();
});

const themes = ["system", "light", "dark"];
function showTheme() {
  const name = document.documentElement.dataset.theme ?? "system";
  $("theme").replaceChildren(name);
  $("theme").setAttribute("aria-label", `Theme: ${name}`);
}
$("theme").addEventListener("click", () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % themes.length];
  if (next === "system") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("tipcache.theme");
  } else {
    document.documentElement.dataset.theme = next;
    localStorage.setItem("tipcache.theme", next);
  }
  showTheme();
});

showTheme();
let width = 0;
new ResizeObserver(() => {
  if ($("board").clientWidth === width) return;
  width = $("board").clientWidth;
  draw();
}).observe($("board"));
follow();

// Figures as people read them.

export function rate(v) {
  if (v === 0) return "0";
  if (v < .1) return v.toFixed(2);
  if (v < 10) return v.toFixed(1);
  if (v < 10_000) return Math.round(v).toLocaleString("en");
  return `${(v / 1000).toFixed(v < 100_000 ? 1 : 0)}k`;
}

export const whole = (v) => Math.round(v).toLocaleString("en");
export const percent = (v) => `${(v * 100).toFixed(v > .9995 || v < .0005 ? 0 : 1)}%`;
export const percentAxis = (v) => `${Math.round(v * 100)}%`;

export function seconds(v) {
  if (v === 0) return "0";
  if (v < 1e-3) return `${Math.round(v * 1e6)} µs`;
  if (v < 1) return `${(v * 1e3).toFixed(v < .01 ? 1 : 0)} ms`;
  if (v < 120) return `${v.toFixed(v < 10 ? 1 : 0)} s`;
  return duration(v);
}

export function duration(v) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => v >= size);
  if (first < 0) return "0 s";
  const [name, size] = units[first], next = units[first + 1];
  const rest = next ? Math.floor(v % size / next[1]) : 0;
  return `${Math.floor(v / size)} ${name}` + (rest ? ` ${rest} ${next[0]}` : "");
}

export function bytes(v) {
  if (v === 0) return "0";
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (v >= size) return `${(v / size).toFixed(v / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${v} B`;
}

export const cores = (v) => v < .1 ? v.toFixed(3) : v.toFixed(2);

// Writes the TypeScript and the Python of each operation of a manual, each into a file of its own.
import { writeFileSync } from 'node:fs'

const [url, to] = process.argv.slice(2)
const page = await (await fetch(`${url}/docs`)).text()
const plain = (text) => text.replace(/&#(\d+);/g, (_, n) => String.fromCharCode(n)).replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
for (const [language, suffix] of [['TypeScript', 'ts'], ['Python', 'py']]) {
  const samples = new RegExp(`<figcaption>${language}</figcaption><pre[^>]*><code>([^]*?)</code>`, 'g')
  const sources = [...page.matchAll(samples)].map(([, source]) => plain(source))
  sources.forEach((source, i) => writeFileSync(`${to}-${i}.${suffix}`, source))
  if (sources.length < 40) throw new Error(`${url}/docs has ${sources.length} samples in ${language}`)
}

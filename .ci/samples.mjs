// Writes the TypeScript beside each operation of a manual, each into a file of its own.
import { writeFileSync } from 'node:fs'

const [url, to] = process.argv.slice(2)
const page = await (await fetch(`${url}/docs`)).text()
const plain = (text) => text.replace(/&#(\d+);/g, (_, n) => String.fromCharCode(n)).replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
const sources = [...page.matchAll(/<figcaption>TypeScript<\/figcaption><pre[^>]*><code>([^]*?)<\/code>/g)].map(([, source]) => plain(source))
sources.forEach((source, i) => writeFileSync(`${to}-${i}.ts`, source))
if (sources.length < 40) throw new Error(`${url}/docs has ${sources.length} samples in TypeScript`)

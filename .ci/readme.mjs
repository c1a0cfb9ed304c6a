// Writes each block of TypeScript of a README into a file, readme-N.ts, and declares what the blocks leave to their reader.
import { readFileSync, writeFileSync } from 'node:fs'

const blocks = [...readFileSync(process.argv[2], 'utf8').matchAll(/^```ts\n([^]*?)^```$/gm)]
if (blocks.length < 3) throw new Error(`${process.argv[2]} has ${blocks.length} blocks of TypeScript`)
blocks.forEach(([, source], i) => writeFileSync(`readme-${i}.ts`, source))
writeFileSync('readme.d.ts', `
declare const url: string, apiKey: string, receipt: import('@tipcache/client').Receipt
declare function show(rewards: { validator_address: string }[], height: number): void
declare function gray(error: string, height: number | undefined): void
declare function draw(height: number, ...values: unknown[]): void
`)

// Tests of the built client against a running server, which TIPCACHE_URL names.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { Tipcache, TipcacheError } from '../dist/index.js'

const url = process.env.TIPCACHE_URL
const skip = url ? false : 'set TIPCACHE_URL to the address of a running server'

test('an answer comes with its block', { skip }, async () => {
  const { msg, height, etag } = await new Tipcache(url + '/').get('/staking/pool')
  assert.ok(height > 0 && etag.length > 2 && msg.pool.bonded_tokens)
})

test('a refusal is thrown with what the server says', { skip }, async () => {
  const read = new Tipcache(url).get('/staking/validators/{validator_addr}', { params: { validator_addr: 'nope' } })
  await assert.rejects(read, err => err instanceof TipcacheError && err.status === 400 && /validator_addr/.test(err.message))
  await assert.rejects(new Tipcache(url).get('/staking/validators/{validator_addr}'), /needs validator_addr/)
})

test('a walk gives every item once, all of one block', { skip }, async () => {
  const seen = [], heights = new Set()
  let page = 0
  for await (const { msg, height } of new Tipcache(url).pages('/staking/validators', { params: { 'pagination.limit': 9 } })) {
    seen.push(...msg.validators.map(v => v.operator_address))
    if (page++ > 0) heights.add(height)
  }
  assert.ok(page > 3 && new Set(seen).size === seen.length && seen.length > 30)
  assert.equal(heights.size, 1)
})

test('a walk follows the Link of a list that is all there is', { skip }, async () => {
  const chain = new Tipcache(url)
  const validators = (await chain.get('/staking/validators', { params: { status: 'bonded' } })).msg.validators
  const params = { validator_addr: validators[0].operator_address, 'pagination.limit': 1 }
  const { delegation_responses: [{ delegation }] } = (await chain.get('/staking/validators/{validator_addr}/delegations', { params })).msg
  params.delegator_addr = delegation.delegator_address
  let pages = 0
  for await (const page of chain.pages('/staking/validators/{validator_addr}/delegators/{delegator_addr}/period_delegations', { params })) {
    assert.ok(Array.isArray(page.msg))
    if (++pages === 3) break
  }
  assert.ok(pages >= 1)
})

test('waitFor returns once the block has come', { skip }, async () => {
  const chain = new Tipcache(url)
  const { height } = await chain.get('/staking/pool', { minHeight: 1 })
  await chain.waitFor(height + 1)
  assert.ok((await chain.get('/staking/pool', { minHeight: height + 1 })).height > height)
})

test('a block of the execution chain is waited for', { skip }, async () => {
  const chain = new Tipcache(url)
  assert.ok((await chain.get('/staking/pool', { minEvmBlock: 1 })).height > 0)
  await assert.rejects(chain.get('/staking/pool', { minEvmBlock: 0 }), err => err.status === 400 && /X-Min-Evm-Block/.test(err.message))
})

test('waitFor ends with its signal', { skip }, async () => {
  const ended = new Tipcache(url).waitFor(1e9, { signal: AbortSignal.timeout(200) })
  await assert.rejects(ended, err => err.name === 'TimeoutError' || err.name === 'AbortError')
})

// Node 20 has no EventSource: this one reads a stream with fetch, and gives up as a browser's does.
class Source {
  readyState = 0
  #abort = new AbortController()
  #failure
  constructor(url) { this.#run(url) }
  addEventListener(_, listener) { this.#failure = listener }
  close() { this.readyState = 2; this.#abort.abort() }
  async #run(url) {
    try {
      const response = await fetch(url, { headers: { accept: 'text/event-stream' }, signal: this.#abort.signal })
      if (response.status === 200) {
        let text = ''
        for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
          text += chunk
          for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) this.#tell(text.slice(0, end))
        }
      }
    } catch { /* told below */ }
    if (this.readyState === 2) return
    this.readyState = 2
    this.onerror?.()
  }
  #tell(event) {
    const of = name => event.split('\n').find(line => line.startsWith(name + ': '))?.slice(name.length + 2)
    if (of('event') === 'failure') this.#failure?.({ data: of('data') })
    else if (of('data')) this.onmessage?.({ data: of('data'), lastEventId: of('id') })
  }
}

test('live tells of changes, and goes on where a connection ended', { skip }, async () => {
  const chain = new Tipcache(url, { EventSource: Source })
  const { msg } = await chain.get('/staking/validators', { params: { status: 'bonded', 'pagination.limit': 1 } })
  const params = { validator_addr: msg.validators[0].operator_address }
  const ids = []
  await new Promise((resolve, reject) => {
    const live = chain.live('/distribution/validators/{validator_addr}', {
      answer: a => { ids.push(a.id); if (ids.length === 2) { live.close(); resolve() } },
      failure: f => { live.close(); reject(new Error(f.error)) },
    }, { params })
    setTimeout(() => { live.close(); resolve() }, 20_000).unref()
  })
  assert.ok(ids.length >= 1 && new Set(ids).size === ids.length)
})

test('live makes a connection anew that the server refused, and says what it has', async () => {
  const asked = []
  const server = createServer((req, res) => {
    asked.push(new URL(req.url, 'http://host').searchParams.get('stream.last_event_id'))
    if (asked.length === 2) return res.writeHead(503).end()
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.end(`id: ${asked.length}.x\ndata: {"code":200,"msg":{},"error":""}\n\n`)
  })
  await new Promise(done => server.listen(0, '127.0.0.1', done))
  const chain = new Tipcache(`http://127.0.0.1:${server.address().port}`, { EventSource: Source })
  await new Promise(resolve => {
    const live = chain.live('/staking/pool', { answer: a => { if (a.height === 3) { live.close(); resolve() } } })
  })
  server.close()
  assert.deepEqual(asked, [null, '1.x', '1.x'])
})

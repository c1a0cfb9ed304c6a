// Tests of the built client against a running server, which TIPCACHE_URL names.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { mock, test } from 'node:test'
import { Tipcache, TipcacheError } from '../dist/index.js'
import { Tipcache as SDK } from '../dist/sdk.js'

const url = process.env.TIPCACHE_URL
const skip = url ? false : 'set TIPCACHE_URL to the address of a running server'

test('an answer comes with its block', { skip }, async () => {
  const { msg, height, etag } = await new Tipcache(url + '/').get('/staking/pool')
  assert.ok(height > 0 && etag.length > 2 && msg.pool.bonded_tokens)
})

test('the height is 0 while the newest block is unknown, and undefined for a path that was passed on', async () => {
  const heightOf = status => new SDK('http://127.0.0.1', { fetch: async () => new Response('{}', { headers: { 'Cache-Status': status } }) }).get('/cosmos/staking/v1beta1/pool').then(a => a.height)
  assert.equal(await heightOf('tipcache; hit; ttl=1; detail="memory, seconds"'), 0)
  assert.equal(await heightOf('tipcache; fwd=bypass, edge; fwd=miss'), undefined)
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
    heights.add(height)
    page++
  }
  assert.ok(page > 3 && new Set(seen).size === seen.length && seen.length > 30)
  assert.equal(heights.size, 1)
})

test('the pages of a walk name the block of the first one, unless it is pruned or has not arrived', async () => {
  const asked = []
  const request = async (input, { headers }) => {
    asked.push([new URL(input).searchParams.get('pagination.key'), headers['X-Block-Height'], headers['X-Min-Block-Height']])
    const refused = { 3: 404, 6: 400 }[asked.length]
    if (refused) return new Response(`{"code":${refused},"msg":{},"error":"refused"}`, { status: refused })
    const msg = { validators: [], pagination: { next_key: asked.length < 7 ? `key${asked.length}` : null } }
    return new Response(JSON.stringify({ code: 200, msg, error: '' }), { headers: { 'X-Block-Height': headers['X-Block-Height'] ?? String(10 + asked.length) } })
  }
  let last
  for await (const { height } of new Tipcache('http://127.0.0.1', { fetch: request }).pages('/staking/validators')) last = height
  assert.deepEqual(asked, [
    [null, undefined, undefined], ['key1', '11', undefined], ['key2', '11', undefined], ['key2', undefined, '11'],
    ['key4', '14', undefined], ['key5', '14', undefined], ['key5', undefined, '14'],
  ])
  assert.equal(last, 17)
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

test('a batch is of one block, with what a path says no to', { skip }, async () => {
  const chain = new Tipcache(url)
  const { height, answers: [pool, none] } = await chain.batch(['/staking/pool', { path: '/staking/validators/{validator_addr}', params: { validator_addr: 'nope' } }])
  const pinned = await chain.get('/staking/pool', { height })
  assert.deepEqual(pool, { path: '/staking/pool', status: 200, msg: pinned.msg, link: undefined })
  assert.equal(none.status, 400)
  assert.match(none.error, /validator_addr/)
})

test('a client behind a CDN names its blocks in the URL', { skip }, async () => {
  const asked = []
  const chain = new Tipcache(url, { heightsInUrl: true, fetch: (input, init) => { asked.push([input, init.headers]); return fetch(input, init) } })
  const { height } = await chain.get('/staking/validators', { minHeight: 1, params: { 'pagination.limit': 1 } })
  const pinned = await chain.get('/staking/pool', { height: height - 1 })
  assert.equal(pinned.height, height - 1)
  assert.match(pinned.response.headers.get('Cache-Control'), /public, max-age=\d+, immutable/)
  await chain.get('/staking/pool', { minEvmBlock: 1 })
  assert.deepEqual(asked.map(([target]) => target.slice(url.length)), [
    '/staking/validators?pagination.limit=1&x-min-block-height=1', `/staking/pool?x-block-height=${height - 1}`, '/staking/pool?x-min-evm-block=1',
  ])
  for (const [, headers] of asked) assert.deepEqual(Object.keys(headers).filter(name => name !== 'X-Session'), [])
})

test('a client sends back how far it has seen the chain', { skip }, async () => {
  const sent = []
  const chain = new Tipcache(url, { fetch: (input, init) => { sent.push(init.headers['X-Session']); return fetch(input, init) } })
  const first = await chain.get('/staking/pool')
  await chain.waitFor(first.height + 1)
  const { height } = await chain.get('/staking/params')
  await chain.get('/staking/pool', { height: height - 1 })
  assert.ok(height > first.height && sent.length === 4)
  assert.equal(sent[0], undefined)
  assert.equal(sent[1], first.response.headers.get('X-Session'))
  assert.ok(Number.parseInt(sent[2]) > first.height)
  assert.equal(sent[3], undefined)
})

test('a CDN that answers with an older block is asked for the block by the URL', async () => {
  const asked = [], sent = []
  const answers = {
    '/staking/pool': [answer(7, '7.AAAAAAAA'), answer(6, '6.AAAAAAAA'), answer(8, '8.AAAAAAAA'), answer(3, '3.BBBBBBBB', { 'X-Session-Reset': 'true' }), answer(2, '2.BBBBBBBB', { 'Cache-Status': 'tipcache; hit; detail="memory stale-while-revalidate"' })],
    '/staking/pool?x-min-block-height=7.AAAAAAAA': [answer(7, '7.AAAAAAAA')],
  }
  const chain = new Tipcache('https://cdn.example', { fetch: async (input, init) => {
    const target = input.slice('https://cdn.example'.length)
    asked.push([target, init.headers['X-Session']])
    sent.push(answers[target].shift())
    return sent.at(-1)
  } })
  const heights = []
  for (let i = 0; i < 5; i++) heights.push((await chain.get('/staking/pool')).height)
  assert.deepEqual(heights, [7, 7, 8, 3, 2])
  assert.ok(sent.every(response => response.bodyUsed), 'an unread body occupies its connection')
  assert.deepEqual(asked, [
    ['/staking/pool', undefined],
    ['/staking/pool', '7.AAAAAAAA'], ['/staking/pool?x-min-block-height=7.AAAAAAAA', '7.AAAAAAAA'],
    ['/staking/pool', '7.AAAAAAAA'],
    ['/staking/pool', '8.AAAAAAAA'],
    ['/staking/pool', '3.BBBBBBBB'],
  ])
})

function answer(height, session, headers = {}) {
  return new Response('{"code":200,"msg":{},"error":""}', { headers: { 'Content-Type': 'application/json', 'X-Block-Height': String(height), 'X-Session': session, ...headers } })
}

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

for (const heightsInUrl of [false, true]) {
  test(`waitForReceipt resolves with the first block that includes a receipt${heightsInUrl ? ', named in the URL' : ''}`, { skip }, async () => {
    const asked = []
    const chain = new Tipcache(url, { heightsInUrl, fetch: (input, init) => { asked.push([input.slice(url.length), Object.keys(init.headers)]); return fetch(input, init) } })
    const blockNumber = await includedBlock() + 2n
    const { height, answers: [pool, params] } = await chain.waitForReceipt({ blockNumber }, ['/staking/pool', '/staking/params'])
    assert.ok(pool.msg.pool && params.msg.params)
    await assert.rejects(chain.get('/staking/pool', { height: height - 1, minEvmBlock: Number(blockNumber) }), err => err.status === 504)
    const [target, headers] = asked.find(([target]) => target.startsWith('/batch'))
    assert.equal(target.includes(`x-min-evm-block=${blockNumber}`), heightsInUrl)
    assert.equal(headers.includes('X-Min-Evm-Block'), !heightsInUrl)
    const again = await chain.waitForReceipt({ blockNumber: `0x${blockNumber.toString(16)}` }, ['/staking/pool'], { timeout: 1_000 })
    assert.ok(again.height >= height)
    await assert.rejects(chain.waitForReceipt({ blockNumber: 1e12 }, ['/staking/pool'], { timeout: 100 }), err => err instanceof TipcacheError && err.status === 504 && /block 1000000000000 .* not included after 100 ms/.test(err.message))
  })
}

// includedBlock is the newest block of the execution chain that the state includes.
async function includedBlock() {
  const ended = new AbortController()
  const response = await fetch(`${url}/live?path=/staking/pool&stream.blocks=true`, { headers: { Accept: 'text/event-stream' }, signal: ended.signal })
  let text = ''
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    const found = /"evm_block":(\d+)/.exec(text += part)
    if (found) return ended.abort(), BigInt(found[1])
  }
}

test('waitForReceipt names the block that it began at, and ends with a rollback, a refusal or its signal', async () => {
  const asked = [], outcomes = [() => refusal(409), () => refusal(400), () => refusal(504)]
  const chain = new Tipcache('https://chain.example', { fetch: async (input, init) => {
    if (input.endsWith('/staking/params')) return answer(7, '7.AAAAAAAA')
    init.signal?.throwIfAborted()
    asked.push([input.slice('https://chain.example'.length), init.headers['X-Min-Block-Height'], init.headers['X-Min-Evm-Block']])
    return outcomes.length > 1 ? outcomes.shift()() : outcomes[0]()
  } })
  const wait = (options, blockNumber = 5) => chain.waitForReceipt({ blockNumber }, ['/staking/pool'], options)
  await assert.rejects(wait(), err => err instanceof TipcacheError && err.status === 409)
  await assert.rejects(wait(), err => err instanceof TipcacheError && err.status === 400)
  await assert.rejects(wait({ timeout: 20 }), err => err instanceof TipcacheError && err.status === 504 && err.cause !== undefined)
  await assert.rejects(wait({ signal: AbortSignal.abort(new Error('left')) }), /left/)
  await assert.rejects(wait({}, null), TypeError)
  assert.deepEqual(asked[0], ['/batch?path=%2Fstaking%2Fpool', '7.AAAAAAAA', '5'])
})

test('waitFor goes on after a limit, a broken connection and a timeout, and ends with a refusal', async t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const outcomes = [() => refusal(429), () => { throw new TypeError('fetch failed') }, () => refusal(502), () => refusal(504), () => answer(7, '7.AAAAAAAA'), () => refusal(400)]
  let asked = 0
  const chain = new Tipcache('https://chain.example', { fetch: async () => outcomes[asked++]() })
  let ended = false
  const done = chain.waitFor(7).finally(() => { ended = true })
  while (!ended) {
    mock.timers.tick(1_000)
    await new Promise(next => setImmediate(next))
  }
  await done
  assert.equal(asked, 5)
  await assert.rejects(chain.waitFor(7), err => err instanceof TipcacheError && err.status === 400)
})

test('waitForReceipt asks again at once after the server has waited in vain', async t => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  t.after(() => mock.timers.reset())
  const asked = []
  const chain = new Tipcache('https://chain.example', { fetch: async input => {
    if (!input.includes('/batch')) return answer(7, '7.AAAAAAAA')
    asked.push(Date.now())
    if (asked.length === 2) return new Response('{"height":8,"answers":[]}', { headers: { 'X-Session': '8.AAAAAAAA' } })
    await new Promise(next => setTimeout(next, 10_000))
    return refusal(504, { 'Retry-After': '2' })
  } })
  let ended = false
  const done = chain.waitForReceipt({ blockNumber: 5 }, ['/staking/pool']).finally(() => { ended = true })
  while (!ended) {
    await new Promise(next => setImmediate(next))
    mock.timers.tick(500)
  }
  await done
  assert.ok(asked[1] - asked[0] <= 10_500, `asked again after ${asked[1] - asked[0]} ms`)
})

test('a server that cannot be reached is a TipcacheError of status 0', async () => {
  const fetch = async () => { throw new TypeError('fetch failed') }
  await assert.rejects(new Tipcache('https://chain.example', { fetch }).get('/staking/pool'), err => err instanceof TipcacheError && err.status === 0 && err.cause instanceof TypeError && /fetch failed/.test(err.message))
})

function refusal(status, headers = {}) { return new Response(`{"code":${status},"msg":null,"error":"no ${status}"}`, { status, headers }) }

test('an abort and a lost connection are reported as such while the body arrives', async () => {
  const halves = new Set()
  const server = createServer((_, response) => {
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 100 })
    response.write('{"code":200,', () => { for (const sent of halves) sent(response) })
  })
  await new Promise(listening => server.listen(0, '127.0.0.1', listening))
  try {
    const chain = new Tipcache(`http://127.0.0.1:${server.address().port}`)
    const aborted = new AbortController()
    halves.add(() => aborted.abort())
    await assert.rejects(chain.get('/staking/pool', { signal: aborted.signal }), { name: 'AbortError' })
    halves.clear()
    halves.add(response => response.destroy())
    await assert.rejects(chain.get('/staking/pool'), err => err instanceof TipcacheError && err.status === 0)
  } finally {
    server.closeAllConnections()
    server.close()
  }
})

test('waitFor ends with its signal', { skip }, async () => {
  const ended = new Tipcache(url).waitFor(1e9, { signal: AbortSignal.timeout(200) })
  await assert.rejects(ended, err => err.name === 'TimeoutError' || err.name === 'AbortError')
})

test('live tells of changes, each once', { skip }, async () => {
  const chain = new Tipcache(url)
  const { msg } = await chain.get('/staking/validators', { params: { status: 'bonded', 'pagination.limit': 1 } })
  const params = { validator_addr: msg.validators[0].operator_address }
  const ids = []
  await new Promise((resolve, reject) => {
    const live = chain.live('/distribution/validators/{validator_addr}', {
      answer: a => { ids.push(a.id); if (ids.length === 2) { live.close(); resolve() } },
      failure: f => { live.close(); reject(new Error(f.error)) },
    }, { params })
  })
  assert.equal(new Set(ids).size, 2)
})

test('what is followed goes on where it was when more is', { skip }, async () => {
  const chain = new Tipcache(url), told = [], lives = []
  const follow = path => new Promise((resolve, reject) => { lives.push(chain.live(path, { answer: a => { told.push(path); resolve(a) }, failure: f => reject(new Error(f.error)) })) })
  await Promise.all([follow('/staking/params'), follow('/distribution/params')])
  await follow('/auth/params')
  await follow('/mint/params')
  assert.equal(told.length, 4)
  const refused = await new Promise(resolve => chain.live('/staking/validators/{validator_addr}', { answer() {}, failure: resolve }, { params: { validator_addr: 'nope' } }))
  assert.deepEqual([refused.code, refused.final], [400, true])
  assert.match(refused.error, /validator_addr/)
  assert.equal(told.length, 4)
  lives.forEach(live => live.close())
})

test('collections are listed with a key, and refused with what is wrong', { skip: skip || (process.env.TIPCACHE_KEY ? false : 'set TIPCACHE_KEY to a key of that server') }, async () => {
  const chain = new Tipcache(url, { apiKey: process.env.TIPCACHE_KEY })
  const { data, pagination } = await chain.collections({ orderBy: 'assetCount', orderDirection: 'desc', pagination: { limit: 3 } })
  assert.ok(data.length === 3 && pagination.total > 3 && data[0].assetCount >= data[2].assetCount)
  const one = await chain.collections({ where: { collectionAddresses: [data[1].collectionAddress] } })
  assert.equal(one.data[0].collectionAddress, data[1].collectionAddress)
  await assert.rejects(chain.collections({ pagination: { limit: 0 } }), err => err.status === 422 && err.violations[0].location === 'body.pagination.limit')
  await assert.rejects(new Tipcache(url).collections(), err => err instanceof TipcacheError && err.status === 401)
})

const cosmos = process.env.TIPCACHE_COSMOS_URL
const skipCosmos = cosmos ? false : 'set TIPCACHE_COSMOS_URL to the address of a running server of the other dialect'

test('a chain of the Cosmos SDK answers with its own bodies', { skip: skipCosmos }, async () => {
  const chain = new SDK(cosmos)
  const { msg, height } = await chain.get('/cosmos/staking/v1beta1/pool')
  assert.ok(height > 0 && msg.pool.bonded_tokens)
  await chain.waitFor(height + 1)
  const seen = []
  for await (const page of chain.pages('/cosmos/staking/v1beta1/validators', { params: { 'pagination.limit': 2 } })) seen.push(...page.msg.validators.map(v => v.operator_address))
  assert.ok(seen.length > 2 && new Set(seen).size === seen.length)
  await assert.rejects(chain.get('/cosmos/staking/v1beta1/validators/{validator_addr}', { params: { validator_addr: 'nope' } }),
    err => err instanceof TipcacheError && err.status >= 400 && /bech32/.test(err.message))
  const live = await new Promise((resolve, reject) => {
    const live = chain.live('/cosmos/staking/v1beta1/pool', { answer: a => { live.close(); resolve(a) }, failure: f => { live.close(); reject(new Error(f.error)) } })
  })
  assert.ok(live.height > 0 && live.status === 200 && live.msg.pool.bonded_tokens)
})

test('without a fetch it says what is missing', () => {
  const had = globalThis.fetch
  globalThis.fetch = undefined
  try {
    assert.throws(() => new Tipcache('http://127.0.0.1'), /needs fetch/)
  } finally {
    globalThis.fetch = had
  }
})

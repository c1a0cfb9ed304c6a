// Tests of live(), against a server that does as it is told.
import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { Tipcache } from '../dist/index.js'
import { caught, moveClock, notes, startStreams, until } from './streams.mjs'

const pool = '/staking/pool', params = '/staking/params'

test('answers that are followed share a connection, and twenty-one need two', async t => {
  const server = await startStreams(t)
  server.onstream = s => s.paths.forEach(p => s.say(p, 7, { p }))
  const chain = new Tipcache(server.url, { apiKey: 'secret' })
  const all = Array.from({ length: 20 }, (_, i) => notes())
  const lives = all.map((n, i) => chain.live('/staking/validators/{validator_addr}', n, { params: { validator_addr: `v${i}` } }))
  await until(() => all.every(n => n.told.length === 1))
  assert.equal(server.asked.length, 1)
  assert.equal(server.asked[0].key, 'secret')
  assert.equal(server.asked[0].accept, 'text/event-stream')
  assert.deepEqual(all[3].told, [{ msg: { p: '/staking/validators/v3' }, status: 200, height: 7, id: '7.{"p":"/staking/validators/v3"}' }])

  const more = [pool, params].map(p => { const n = notes(); lives.push(chain.live(p, n)); return n })
  await until(() => more.every(n => n.told.length === 1))
  assert.deepEqual(server.asked.map(s => s.paths.length), [20, 2])

  lives.splice(0, 15).forEach(l => l.close())
  await until(() => server.open.size === 1, 'one connection again')
  assert.equal([...server.open][0].paths.length, 7)
  lives.forEach(l => l.close())
  await until(() => server.open.size === 0)
})

test('one path followed twice is asked for once, and told to both', async t => {
  const server = await startStreams(t)
  server.onstream = s => s.say(pool, 7, 'a')
  const chain = new Tipcache(server.url), first = notes(), second = notes()
  const lives = [chain.live(pool, first)]
  await until(() => first.told.length === 1)
  lives.push(chain.live(pool, second))
  await until(() => second.told.length === 1)
  assert.deepEqual([server.asked.length, server.asked[0].paths.length, first.told.length], [1, 1, 1])
  lives.forEach(l => l.close())
})

test('a path that joins or leaves makes the connection anew, which goes on where it was', async t => {
  const server = await startStreams(t)
  const chain = new Tipcache(server.url), a = notes(), b = notes(), c = notes()
  const lives = [chain.live(pool, a), chain.live(params, b)]
  await until(() => server.asked.length === 1)
  const [first] = server.asked
  assert.deepEqual([first.paths, first.id, first.blocks], [[pool, params], null, 'true'])
  first.say(pool, 7, 'a')
  first.say(params, 7, 'b')
  first.write('id: one.two\n\n')
  await until(() => b.told.length === 1)
  lives.push(chain.live('/auth/params', c))
  await until(() => server.asked.length === 2)
  assert.deepEqual([server.asked[1].paths, server.asked[1].id], [[pool, params, '/auth/params'], 'one.two.'])
  server.asked[1].say('/auth/params', 8, 'c')
  server.asked[1].write('id: one.two.three\n\n')
  await until(() => c.told.length === 1)
  lives[0].close()
  await until(() => server.asked.length === 3)
  assert.deepEqual([server.asked[2].paths, server.asked[2].id], [[params, '/auth/params'], 'two.three'])
  server.asked[2].say(params, 9, 'b') // a server that knows no ids
  server.asked[2].say('/auth/params', 9, 'd')
  await until(() => c.told.length === 2)
  assert.deepEqual([a.told.length, b.told.length, c.told[1].msg], [1, 1, 'd'])
  lives.forEach(l => l.close())
})

test('a connection that is lost is told of at once with what is old, and again once that holds', async t => {
  const server = await startStreams(t)
  const chain = new Tipcache(server.url), n = notes()
  const live = chain.live(pool, n)
  await until(() => server.asked.length === 1)
  server.asked[0].say(pool, 7, 'a')
  server.asked[0].block(7)
  await until(() => n.told.length === 1)
  assert.equal(live.failure, undefined)
  server.asked[0].cut()
  await until(() => n.told.length === 2)
  const { failure, old } = n.told[1]
  assert.deepEqual([failure.code, failure.final, old.msg, live.answer.msg, live.failure], [0, false, 'a', 'a', failure])
  assert.match(failure.error, /lost/)
  await until(() => server.asked.length === 2)
  assert.equal(server.asked[1].id, '7."a"')
  server.asked[1].block(8)
  server.asked[1].block(9) // by now 8 was read, and had nothing new
  await until(() => n.told.length === 3)
  assert.deepEqual([n.told[2].msg, live.failure], ['a', undefined])
  live.close()
})

test('a server that is gone is told of', async t => {
  const server = await startStreams(t)
  server.http.closeAllConnections()
  await new Promise(done => server.http.close(done))
  const n = notes(), live = new Tipcache(server.url).live(pool, n)
  await until(() => n.told.length === 1)
  assert.deepEqual([n.told[0].failure.code, n.told[0].old], [0, undefined])
  live.close()
})

test('a server that falls silent is told of, and asked again', async t => {
  const server = await startStreams(t)
  moveClock(t)
  const reached = async condition => { while (!condition()) await new Promise(done => setImmediate(done)) }
  const n = notes(), live = new Tipcache(server.url).live(pool, n)
  mock.timers.tick(20)
  await reached(() => server.asked.length === 1)
  for (let height = 7; height < 10; height++) {
    server.asked[0].block(height)
    server.asked[0].say(pool, height, height)
    await reached(() => n.told.at(-1)?.msg === height)
    mock.timers.tick(2000)
  }
  mock.timers.tick(5900)
  assert.equal(live.failure, undefined)
  mock.timers.tick(200)
  assert.match(live.failure.error, /nothing has come for 8 s/)
  assert.equal(n.told.at(-1).old.msg, 9)
  server.hang = true
  mock.timers.tick(2000)
  await reached(() => server.hung)
  assert.equal(n.told.filter(told => told.failure).length, 1)
  live.close()
  mock.timers.tick(300) // after which the connection is closed, too
})

test('what cannot be read anew is marked, and the others are not', async t => {
  const server = await startStreams(t)
  const chain = new Tipcache(server.url), a = notes(), b = notes()
  const lives = [chain.live(pool, a), chain.live(params, b)]
  await until(() => server.asked.length === 1)
  const [stream] = server.asked
  stream.say(pool, 7, 'a')
  stream.say(params, 7, 'b')
  stream.write(`event: failure\ndata: {"path":"${pool}","height":0,"answer":{"code":502,"error":"the chain node cannot be reached"}}\n\n`)
  stream.block(8)
  stream.block(9)
  stream.say(params, 9, 'c')
  await until(() => b.told.length === 2)
  assert.deepEqual(a.told[1], { failure: { code: 502, error: 'the chain node cannot be reached', final: false }, old: a.told[0] })
  stream.say(pool, 10, 'a')
  await until(() => a.told.length === 3)
  assert.equal(a.told[2].height, 10)
  lives.forEach(l => l.close())
})

test('a path that the server refuses ends alone', async t => {
  const server = await startStreams(t)
  server.refuse = s => s.paths.includes('/staking/validators/nope') ? 400 : undefined
  server.onstream = s => s.blocks && s.paths.forEach(p => s.say(p, 7, 'a'))
  const chain = new Tipcache(server.url), good = notes(), bad = notes()
  const lives = [chain.live(pool, good), chain.live('/staking/validators/{validator_addr}', bad, { params: { validator_addr: 'nope' } }), chain.live(params, notes())]
  await until(() => good.told.length === 1)
  assert.deepEqual(bad.told, [{ failure: { code: 400, error: 'no 400 for /staking/validators/nope', final: true }, old: undefined }])
  assert.deepEqual([...server.open].map(s => s.paths), [[pool, params]])
  lives.forEach(l => l.close())
})

test('a server that says when to come again is asked then', async t => {
  const server = await startStreams(t)
  const chain = new Tipcache(server.url), n = notes(), live = chain.live(pool, n)
  await until(() => server.asked.length === 1)
  server.asked[0].say(pool, 7, 'a')
  server.asked[0].end('retry: 1\n\n')
  await until(() => server.asked.length === 2)
  assert.equal(server.asked[1].id, '7."a"')
  live.close()
})

test('what a listener throws is no affair of the others', async t => {
  const server = await startStreams(t)
  server.onstream = s => s.paths.forEach(p => s.say(p, 7, 'a'))
  const errors = caught(t)
  const chain = new Tipcache(server.url), n = notes()
  const lives = [chain.live(pool, { answer() { throw new Error('mine') } }), chain.live(params, n)]
  await until(() => n.told.length === 1)
  await until(() => errors.length > 0)
  assert.equal(errors[0].message, 'mine')
  lives.forEach(l => l.close())
})

test('frames are drawn when a block is complete, with what failed at it', async t => {
  const server = await startStreams(t), drawn = []
  const page = new Tipcache(server.url).frames([pool, params], f => drawn.push(f))
  await until(() => server.asked.length === 1)
  const [s] = server.asked
  s.say(pool, 7, 'a7')
  s.say(params, 7, 'b7')
  s.block(7)
  s.say(pool, 8, 'a8')
  s.write(`event: failure\ndata: ${JSON.stringify({ path: params, height: 0, answer: { code: 504, error: 'late' } })}\n\n`)
  s.block(8)
  s.say(params, 9, 'b9')
  await until(() => drawn.length === 2)
  s.block(9)
  await until(() => drawn.length === 3)
  assert.deepEqual(drawn.map(f => [f.height, ...f.answers.map(a => a.failure ? a.failure.error : a.answer.msg)]), [[7, 'a7', 'b7'], [8, 'a8', 'late'], [9, 'a8', 'b9']])
  page.close()
  await until(() => server.open.size === 0)
  assert.throws(() => new Tipcache(server.url).frames(Array.from({ length: 21 }, (_, i) => ({ path: '/staking/validators/{validator_addr}', params: { validator_addr: i } })), () => {}), RangeError)
})

test('answers come by polls where streams are cut or held', async t => {
  const server = await startStreams(t)
  moveClock(t)
  const reached = async condition => { while (!condition()) { mock.timers.tick(100); await new Promise(done => setImmediate(done)) } }
  server.onstream = s => s.cut()
  const n = notes(), live = new Tipcache(server.url).live(pool, n)
  await reached(() => server.asked.length === 1)
  server.onstream = undefined // the next one says nothing
  await reached(() => server.polled.length === 1)
  assert.deepEqual([server.asked.length, server.polled[0].path, server.polled[0].since], [2, pool, '0'])
  server.polled[0].say(200, 7, 'a', '7.x')
  await reached(() => server.polled.length === 2)
  assert.deepEqual([n.told.at(-1), server.polled[1].since], [{ msg: 'a', status: 200, height: 7, id: '7."a"' }, '7.x'])
  server.polled[1].say(204, 9, undefined, '9.x')
  await reached(() => server.polled.length === 3)
  server.polled[2].say(404, 10, {}, '10.y')
  await reached(() => server.polled.length === 4)
  assert.deepEqual([n.told.at(-1).status, n.told.at(-1).height], [404, 10])
  server.polled[3].say(503, 10, 'busy', undefined, { 'retry-after': '3' })
  await reached(() => n.told.at(-1).failure)
  assert.deepEqual([n.told.at(-1).failure.code, n.told.at(-1).old.status], [503, 404])
  await reached(() => server.polled.length === 5)
  assert.equal(server.polled[4].since, '10.y')
  server.polled[4].say(204, 11, undefined, '11.y')
  await reached(() => !live.failure)
  await reached(() => server.polled.length === 6)
  server.polled[5].say(400, 0, 'another chain')
  await reached(() => server.polled.length === 7)
  assert.equal(server.polled[6].since, '0')
  server.polled[6].say(200, 3, 'b', '3.z')
  await reached(() => n.told.at(-1).msg === 'b')
  live.close()
  mock.timers.tick(300) // after which the poll is given up, too
})

test('polls that a cache answers at once are sent less often, and reported', async t => {
  const server = await startStreams(t)
  moveClock(t)
  const reached = async condition => { while (!condition()) { mock.timers.tick(100); await new Promise(done => setImmediate(done)) } }
  server.onstream = s => s.cut()
  const n = notes(), live = new Tipcache(server.url).live(pool, n)
  let answered = 0
  const cached = async (count, height, next) => {
    for (; count > 0; count--, answered++) {
      await reached(() => server.polled.length > answered)
      server.polled[answered].say(200, height, 'a', next)
    }
  }
  await cached(1, 7, '7.x')
  await reached(() => n.told.at(-1)?.msg === 'a')
  const began = Date.now()
  await cached(4, 7, '7.x')
  await reached(() => live.failure)
  assert.ok(Date.now() - began > 3_000, `five polls within ${Date.now() - began} ms`)
  assert.match(live.failure.error, /cache/)
  assert.equal(live.answer.msg, 'a')
  await reached(() => server.polled.length > answered)
  assert.ok(server.polled.at(-1).busts)
  server.polled[answered++].say(200, 6, 'older', '6.x') // of another cache
  await reached(() => server.polled.length > answered)
  assert.deepEqual([live.answer.height, live.answer.msg, server.polled.at(-1).since], [7, 'a', '7.x'])
  server.polled[answered++].say(200, 8, 'b', '8.x')
  await reached(() => n.told.at(-1).msg === 'b')
  assert.equal(live.failure, undefined)
  live.close()
  mock.timers.tick(300)
})

test('a path that is refused to polls ends alone, and streams are tried again in time', async t => {
  const server = await startStreams(t)
  moveClock(t)
  const reached = async condition => { while (!condition()) { mock.timers.tick(100); await new Promise(done => setImmediate(done)) } }
  server.onstream = s => s.cut()
  const chain = new Tipcache(server.url), good = notes(), bad = notes()
  const lives = [chain.live(pool, good), chain.live(params, bad)]
  await reached(() => server.polled.length === 2)
  server.polled.find(p => p.path === params).say(400, 0, {})
  await reached(() => bad.told.at(-1)?.failure?.final)
  const cut = server.asked.length
  server.onstream = s => s.say(pool, 8, 'a')
  mock.timers.tick(600_000)
  await reached(() => good.told.at(-1)?.msg === 'a')
  assert.deepEqual([server.asked.length, server.asked.at(-1).paths], [cut + 1, [pool]])
  lives.forEach(l => l.close())
  mock.timers.tick(300)
})

test('a stream goes on in the session that its blocks have told, and begins anew where the chain was set back', async t => {
  const server = await startStreams(t)
  const seen = [], page = new Tipcache(server.url).frames([pool], ({ height }) => seen.push(height))
  const told = async (...blocks) => {
    const stream = server.asked.at(-1), count = server.asked.length
    stream.say(pool, blocks[0][0], 'a')
    for (const [height, session] of blocks) stream.block(height, session)
    await until(() => seen.at(-1) === blocks.at(-1)[0])
    stream.end('retry: 1\n\n')
    await until(() => server.asked.length > count)
    return server.asked.at(-1).session
  }
  await until(() => server.asked.length === 1)
  assert.equal(server.asked[0].session, undefined)
  assert.equal(await told([8, '8.aaaaaaaa'], [9, '9.aaaaaaaa']), '9.aaaaaaaa')
  server.head = { 'x-session-reset': 'true' }
  assert.equal(await told([10, '10.aaaaaaaa']), '10.aaaaaaaa')
  assert.equal(await told([4, '4.bbbbbbbb']), '4.bbbbbbbb')
  page.close()
  await until(() => server.open.size === 0)
})

test('frames are drawn of batches where streams are cut or held', async t => {
  const server = await startStreams(t)
  moveClock(t)
  const reached = async condition => { while (!condition()) { mock.timers.tick(50); for (let i = 0; i < 20; i++) await new Promise(done => setImmediate(done)) } }
  server.onstream = s => s.cut()
  const frames = [], page = new Tipcache(server.url).frames([pool, params], ({ height, answers }) => frames.push([height, ...answers.map(a => a.failure?.code ?? a.answer.msg)]))
  await reached(() => server.batched.length === 1)
  const asked = at => { const { paths, least, session } = server.batched[at]; return [paths.length, least, session] }
  assert.deepEqual([server.asked.length, ...asked(0)], [2, 2, null, undefined])
  server.batched[0].say(7, ['a', 'x'], { 'x-session': '7.aaaaaaaa' })
  await reached(() => server.batched.length === 2)
  assert.deepEqual([frames, asked(1)], [[[7, 'a', 'x']], [2, '8', '7.aaaaaaaa']])
  server.batched[1].refuse(504) // no block has come
  await reached(() => server.batched.length === 3)
  assert.deepEqual(asked(2), [2, null, '7.aaaaaaaa'])
  server.batched[2].say(7, ['a', 'x'], { 'x-session': '7.aaaaaaaa' }) // which was drawn
  await reached(() => server.batched.length === 4)
  server.batched[3].say(8, ['b', 'x'], { 'x-session': '8.aaaaaaaa' })
  await reached(() => server.batched.length === 5)
  server.batched[4].refuse(502)
  await reached(() => server.batched.length === 6)
  server.batched[5].say(3, ['c', 'x'], { 'x-session': '3.bbbbbbbb', 'x-session-reset': 'true' })
  await reached(() => server.batched.length === 7)
  assert.deepEqual([frames, asked(6)], [[[7, 'a', 'x'], [8, 'b', 'x'], [3, 'c', 'x']], [2, '4', '3.bbbbbbbb']])
  server.onstream = undefined
  mock.timers.tick(600_000) // after which streams are tried again
  await reached(() => server.open.size === 1)
  assert.equal(server.asked.at(-1).session, '3.bbbbbbbb')
  page.close()
  mock.timers.tick(300)
})

test('frames of batches continue after an error of the page', async t => {
  const server = await startStreams(t)
  server.onstream = s => s.end()
  const errors = caught(t)
  const heights = [], page = new Tipcache(server.url).frames([pool], ({ height, answers }) => {
    heights.push([height, answers[0].failure])
    throw new Error('mine')
  })
  for (const height of [7, 8]) {
    await until(() => server.batched.length === height - 6)
    assert.equal(server.batched.at(-1).least, height === 7 ? null : '8')
    server.batched.at(-1).say(height, ['a'])
  }
  await until(() => errors.length === 2)
  assert.deepEqual([heights, errors[0].message], [[[7, undefined], [8, undefined]], 'mine'])
  page.close()
})

test('frames of batches follow a rollback that another request has noticed first', async t => {
  const server = await startStreams(t)
  server.onstream = s => s.end(s.blocks ? undefined : '{}')
  const chain = new Tipcache(server.url), heights = [], page = chain.frames([pool], ({ height }) => heights.push(height))
  await until(() => server.batched.length === 1)
  server.batched[0].say(8, ['a'], { 'x-session': '8.aaaaaaaa' })
  await until(() => server.batched.length === 2)
  server.head = { 'x-session': '3.bbbbbbbb', 'x-session-reset': 'true' }
  await chain.get(params)
  server.batched[1].refuse(504)
  await until(() => server.batched.length === 3)
  assert.deepEqual([server.batched[2].least, server.batched[2].session], [null, '3.bbbbbbbb'])
  server.batched[2].say(3, ['b'], { 'x-session': '3.bbbbbbbb' })
  await until(() => server.batched.length === 4)
  assert.deepEqual([heights, server.batched[3].least], [[8, 3], '4'])
  page.close()
})

test('frames continue without a path for which the server refuses the batch', async t => {
  const server = await startStreams(t)
  server.onstream = s => s.end()
  const frames = []
  const page = new Tipcache(server.url).frames([pool, params], f => frames.push(f))
  await until(() => server.batched.length === 1)
  server.batched[0].refuse(400)
  await until(() => server.batched.length === 2)
  assert.deepEqual(server.batched[1].paths, [pool])
  server.batched[1].say(7, ['a'])
  await until(() => server.batched.length === 3)
  assert.deepEqual(server.batched[2].paths, [params])
  server.batched[2].refuse(400)
  await until(() => server.batched.length === 4)
  assert.deepEqual(server.batched[3].paths, [pool])
  server.batched[3].say(8, ['b'])
  await until(() => frames.length === 1)
  assert.equal(frames[0].answers[0].answer.msg, 'b')
  assert.deepEqual(frames[0].answers[1].failure, { code: 400, error: 'no 400', final: true })
  page.close()
})

test('frames of batches report a refused path and a failed one, and continue with the others', async t => {
  const server = await startStreams(t)
  server.onstream = s => s.cut()
  const frames = [], page = new Tipcache(server.url).frames([pool, params, '/auth/params'], ({ answers }) => frames.push(answers.map(a => a.failure ?? a.answer.msg)))
  await until(() => server.batched.length === 1)
  server.batched[0].say(7, ['a', 400, 502])
  await until(() => server.batched.at(-1).paths.length === 2)
  assert.deepEqual(frames, [['a', { code: 400, error: 'no 400', final: true }, { code: 502, error: 'no 502', final: false }]])
  server.batched.at(-1).say(8, ['b', 'x'])
  await until(() => frames.length === 2)
  assert.deepEqual(frames[1], ['b', { code: 400, error: 'no 400', final: true }, 'x'])
  page.close()
})

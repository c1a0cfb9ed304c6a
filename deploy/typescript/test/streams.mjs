// A server of /live that tests can make say, break off, hang and refuse.
import { createServer } from 'node:http'
import { mock } from 'node:test'

export async function startStreams(t) {
  const server = { asked: [], polled: [], batched: [], head: {}, open: new Set(), refuse: () => undefined, hang: false }
  const http = createServer((req, res) => {
    const { pathname, searchParams: query } = new URL(req.url, 'http://host')
    if (query.has('since')) return server.polled.push({
      path: pathname, since: query.get('since'), busts: query.has('nocache'),
      say: (status, height, msg, next, headers = {}) => {
        res.writeHead(status, { 'x-block-height': height, etag: `"${JSON.stringify(msg)}-gzip"`, ...next && { link: `<?since=${next}>; rel="next"` }, ...headers })
        res.end(status === 204 ? undefined : JSON.stringify({ code: status, msg, error: '' }))
      },
      cut: () => res.destroy(),
    })
    if (pathname === '/batch') return server.batched.push({
      paths: query.getAll('path'), least: query.get('x-min-block-height'), session: req.headers['x-session'],
      say: (height, bodies, headers = {}) => { // a number is the status of a failure
        const member = msg => typeof msg === 'number' ? { status: msg, body: { code: msg, msg: {}, error: `no ${msg}` } } : { status: 200, body: { code: 200, msg, error: '' } }
        res.writeHead(200, { 'x-block-height': height, ...headers })
        res.end(JSON.stringify({ height, answers: bodies.map((msg, i) => ({ path: query.getAll('path')[i], ...member(msg) })) }))
      },
      refuse: status => res.writeHead(status, { 'content-type': 'application/json' }).end(`{"code":${status},"msg":{},"error":"no ${status}"}`),
    })
    const stream = {
      paths: query.getAll('path'), id: query.get('stream.last_event_id'), key: req.headers['x-api-key'], accept: req.headers.accept, blocks: query.get('stream.blocks'), session: query.get('stream.session') ?? undefined,
      write: text => res.write(text),
      say: (path, height, msg, tag = JSON.stringify(msg)) => res.write(`id: ${height}.${tag}\ndata: ${JSON.stringify({ path, height, answer: { code: 200, msg, error: '' } })}\n\n`),
      block: (height, session) => res.write(`event: block\ndata: ${JSON.stringify({ height, session })}\n\n`),
      end: text => res.end(text), cut: () => res.destroy(),
    }
    const refused = server.refuse(stream)
    if (refused) return res.writeHead(refused, { 'content-type': 'application/json' }).end(`{"code":${refused},"msg":{},"error":"no ${refused} for ${stream.paths}"}`)
    if (server.hang) return server.hung = res
    server.asked.push(stream)
    server.open.add(stream)
    res.on('close', () => server.open.delete(stream))
    res.writeHead(200, { 'content-type': 'text/event-stream', ...server.head })
    res.flushHeaders()
    server.onstream?.(stream)
  })
  await new Promise(done => http.listen(0, '127.0.0.1', done))
  t.after(() => { http.closeAllConnections(); http.close() })
  server.url = `http://127.0.0.1:${http.address().port}`
  server.address = http.address()
  server.http = http
  return server
}

/** Waits until a condition holds, which something that happens makes so. */
export async function until(condition, what) {
  for (let i = 0; !condition(); i++) {
    if (i > 6000) throw new Error(`never: ${what ?? condition}`)
    await new Promise(done => setTimeout(done, 5))
  }
}

/**
 * Makes the test move the clock. The timers of fetch keep to the real one: a timer of a kept connection that began before the test,
 * and that only the test's clearTimeout was told to end, would fire after its connection is gone.
 */
export function moveClock(t) {
  const real = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout }
  mock.timers.enable({ apis: ['Date', 'setTimeout'] })
  t.after(() => mock.timers.reset())
  const mocked = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout }
  const isOfFetch = run => run.name === 'onTick' || run.name === 'onParserTimeout'
  globalThis.setTimeout = (run, ...rest) => (isOfFetch(run) ? real : mocked).setTimeout(run, ...rest)
  globalThis.clearTimeout = timer => { real.clearTimeout(timer); mocked.clearTimeout(timer) }
}

/** What a listener is told, in a list. */
export function notes() {
  const told = []
  return { told, answer: a => told.push(a), failure: (f, old) => told.push({ failure: f, old }) }
}

/** The errors that the client throws in microtasks of its own, which the runner would take for those of the test. */
export function caught(t) {
  const errors = [], queue = globalThis.queueMicrotask
  globalThis.queueMicrotask = task => queue(() => { try { task() } catch (err) { errors.push(err) } })
  t.after(() => { globalThis.queueMicrotask = queue })
  return errors
}

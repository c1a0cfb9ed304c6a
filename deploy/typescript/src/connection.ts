// A connection to /live, which carries the answers of several paths.

import { bodyOf, isRefusal, TipcacheError, unwrap } from './answer.js'
import type { Session } from './session.js'
import type { Topic } from './topic.js'

/** Maximum number of paths in a connection. */
export const maxPaths = 20

// Milliseconds.
const openTime = 10_000 // until a stream begins
const idleTime = 40_000 // without data. The server sends some every 15 s
const leastTime = 6_000
const firstWait = 1_000 // before a lost connection is opened again
const longestWait = 30_000

const accept = { Accept: 'text/event-stream' } // proxies recognize streams by it

const mostBarren = 2 // consecutive streams without data

export interface Server {
  fetch(pathAndQuery: string, init: RequestInit): Promise<Response>
  /** Called if the server refuses a path. */
  refused(topic: Topic, err: TipcacheError): void
  /** Called once all answers of a block have arrived. */
  block?: ((height: number) => void) | undefined
  /** The client's session. Streams and polls send and update it. */
  session: Session
  /** Called if streams begin but deliver no data, because a proxy buffers or cuts them. */
  unstreamable?(): void
}

export class Connection {
  #topics: Topic[] = []
  #ended: AbortController | undefined // of the current request
  #retry: ReturnType<typeof setTimeout> | undefined
  #silence: ReturnType<typeof setTimeout> | undefined
  #wait = firstWait
  #advice: number | undefined // retry time from the server
  #begun = false // this request has a stream
  #barren = 0 // streams without data since the last one with data
  #tip = 0
  #first: number | undefined // block that this request saw
  #blockAt = 0
  #gap = 0 // longest recent time between blocks

  constructor(private readonly server: Server) {}

  get topics(): readonly Topic[] { return this.#topics }

  /** Replaces the topics of the connection. Topics that it already carried keep their answers. */
  carry(topics: Topic[]): void {
    if (topics.length === this.#topics.length && topics.every((t, i) => t === this.#topics[i])) return
    this.#topics = topics
    this.#open()
  }

  close(): void {
    clearTimeout(this.#retry)
    clearTimeout(this.#silence)
    const ended = this.#ended
    this.#ended = undefined
    ended?.abort()
  }

  #open(): void {
    this.close()
    this.#advice = this.#first = undefined
    this.#begun = false
    this.#blockAt = this.#gap = 0
    const ended = this.#ended = new AbortController()
    this.#listen(openTime)
    this.#run(ended.signal).then(() => new Error('the server ended it'), (err: Error) => err).then(why => {
      if (this.#ended !== ended) return // replaced by a newer request
      if (why instanceof TipcacheError && isRefusal(why.status)) void this.#refused(why, ended)
      else this.#lost(`the connection is lost: ${why.message}`)
    })
  }

  async #run(signal: AbortSignal): Promise<void> {
    const sent = this.server.session.token
    const response = await this.server.fetch(this.#target(sent), { headers: accept, signal })
    if (!response.ok) await bodyOf(response)
    this.server.session.note(response, sent)
    this.#begun = true
    if (!response.headers.get('Content-Type')?.startsWith('text/event-stream')) throw new Error('the server did not send a stream')
    this.#heard()
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    for (;;) {
      const { value, done } = await reader.read()
      if (done || signal.aborted) return
      this.#heard()
      text += value
      for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) this.#take(text.slice(0, end))
    }
  }

  // The session is in the URL, because a header would need a preflight from other origins.
  #target(session: string | undefined): string {
    const query = new URLSearchParams(this.#topics.map(t => ['path', t.target]))
    query.set('stream.blocks', 'true')
    if (session !== undefined) query.set('stream.session', session)
    const id = this.#topics.length === 1 ? this.#topics[0]!.answer?.id : this.#topics.map(t => t.digest).join('.')
    if (id && /[^.]/.test(id)) query.set('stream.last_event_id', id)
    return `/live?${query}`
  }

  // take reads an event.
  #take(text: string): void {
    const fields = new Map(text.split('\n').map(line => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 1).trimStart()] as const
    }))
    const data = fields.get('data'), id = fields.get('id') ?? ''
    if (fields.has('retry')) this.#advice = Number(fields.get('retry'))
    if (data === undefined) {
      const digests = id.split('.')
      if (id && digests.length === this.#topics.length) this.#topics.forEach((t, i) => { t.digest = digests[i]! })
      return
    }
    this.#wait = firstWait
    this.#barren = -1 // this one is not
    const told = JSON.parse(data), topic = this.#topics.find(t => t.target === told.path)
    if (fields.get('event') === 'block') this.#block(told.height, told.session)
    else if (fields.get('event') === 'failure') topic?.fail({ code: told.answer.code, error: told.answer.error, final: false })
    else if (!fields.has('event')) topic?.take({ ...unwrap(told.answer), height: told.height, id })
  }

  // block confirms answers that did not arrive again. Those are unchanged at the block that was the newest before
  // the connection was lost, and at every block after the first one on this connection.
  #block(height: number, session: string | undefined): void {
    this.server.session.reach(session)
    this.#first ??= height
    if (height === this.#tip || height > this.#first) for (const t of this.#topics) t.confirm()
    this.#tip = height
    const now = Date.now()
    if (this.#blockAt) this.#gap = Math.max(now - this.#blockAt, this.#gap * 0.8)
    this.#blockAt = now
    this.#heard()
    this.server.block?.(height)
  }

  // heard restarts the idle timer, because a dead server does not close its connections.
  #heard(): void {
    this.#listen(this.#gap ? Math.min(Math.max(4 * this.#gap, leastTime), idleTime) : idleTime)
  }

  // listen starts the idle timer, unless the connection is closed. Buffered events may still arrive then.
  #listen(ms: number): void {
    clearTimeout(this.#silence)
    if (!this.#ended) return
    this.#silence = setTimeout(() => {
      this.#begun = true // also if a proxy holds the response headers
      this.#lost(`nothing has come for ${Math.round(ms / 1000)} s`)
    }, ms)
  }

  #lost(why: string): void {
    const after = this.#advice ?? this.#wait * (0.5 + Math.random())
    this.close()
    this.#wait = Math.min(2 * this.#wait, longestWait)
    this.#retry = setTimeout(() => this.#open(), after)
    for (const t of this.#topics) t.fail({ code: 0, error: `${why}; trying again`, final: false })
    if (this.#begun && this.#advice === undefined && ++this.#barren >= mostBarren) this.server.unstreamable?.()
  }

  // refused finds the paths that the server refuses. The others continue without them.
  async #refused(why: TipcacheError, ended: AbortController): Promise<void> {
    const refused: [Topic, TipcacheError][] = this.#topics.length === 1 ? [[this.#topics[0]!, why]] : []
    try {
      for (const t of this.#topics.length > 1 ? this.#topics : []) {
        this.#listen(openTime)
        const alone = await this.server.fetch(`/live?${new URLSearchParams({ path: t.target })}`, { headers: accept, signal: ended.signal })
        if (alone.ok) await alone.body?.cancel()
        else await bodyOf(alone).catch((err: TipcacheError) => { if (isRefusal(err.status)) refused.push([t, err]) })
      }
    } catch { /* handled below as a lost connection */ }
    if (this.#ended !== ended) return
    clearTimeout(this.#silence)
    if (refused.length === 0) this.#lost(why.message)
    for (const [t, err] of refused) this.server.refused(t, err)
  }
}

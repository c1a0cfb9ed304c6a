// Frames read by /batch, for networks where streams do not pass. Each request waits for the block after
// the last one.

import { bodyOf, isRefusal, TipcacheError, unwrap } from './answer.js'
import type { Server } from './connection.js'
import { pause } from './pause.js'
import { heightOf } from './session.js'
import type { Topic } from './topic.js'

// Milliseconds.
const batchTime = 30_000 // per request: the server waits up to 10 s for a block
const firstWait = 1_000 // before a failed request is repeated
const longestWait = 30_000

export class Frames {
  readonly #ended = new AbortController()
  #height = 0

  constructor(private readonly server: Server, private readonly topics: readonly Topic[]) { void this.#run() }

  close(): void { this.#ended.abort() }

  async #run(): Promise<void> {
    const signal = this.#ended.signal
    for (let wait = firstWait, least = 0; !signal.aborted;) {
      try {
        await this.#read(least)
        wait = firstWait
        least = this.#height + 1
      } catch (err) {
        const status = err instanceof TipcacheError ? err.status : 0
        if (isRefusal(status) && await this.#drop().catch(() => false)) return // replaced by a new one
        if (signal.aborted) return
        if (status !== 504) for (const t of this.topics) t.fail({ code: status, error: `${(err as Error).message}; trying again`, final: false })
        least = 0 // the chain may have been rolled back, so that the block never arrives
        await pause((err instanceof TipcacheError && err.retryAfter ? err.retryAfter * 1000 : 0) + wait * (0.5 + Math.random()), signal).catch(() => {}) // closed
        wait = Math.min(2 * wait, longestWait)
      }
    }
  }

  // drop finds the paths that the server refuses, because it refuses a batch for one of them.
  async #drop(): Promise<boolean> {
    const refused: [Topic, TipcacheError][] = []
    const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(batchTime)])
    for (const t of this.topics) {
      const alone = await this.server.fetch(`/batch?${new URLSearchParams({ path: t.target })}`, { signal })
      if (alone.ok) await alone.body?.cancel()
      else await bodyOf(alone).catch((err: TipcacheError) => { if (isRefusal(err.status)) refused.push([t, err]) })
    }
    for (const [t, err] of refused) this.server.refused(t, err)
    return refused.length > 0
  }

  // read passes on the answers of the newest block, which is least or later, unless it has passed on that block before.
  async #read(least: number): Promise<void> {
    const query = new URLSearchParams(this.topics.map(t => ['path', t.target]))
    if (least > 0) query.set('x-min-block-height', String(least))
    const sent = this.server.session.token
    const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(batchTime)])
    const response = await this.server.fetch(`/batch?${query}`, { signal, cache: 'default', headers: sent === undefined ? {} : { 'X-Session': sent } })
    const reset = response.headers.has('X-Session-Reset') || sent !== undefined && heightOf(sent) < this.#height // another request was told of it
    const { height, answers } = await bodyOf(response)
    if (signal.aborted) return
    if (height < least && !reset) throw new Error(`the batch is from block ${height} instead of ${least} or later: a cache in between may ignore the query`)
    if (height <= this.#height && !reset) return
    this.server.session.note(response, sent)
    this.#height = height
    this.topics.forEach((t, i) => {
      const { body, text, status } = answers[i]
      t.digest = ''
      const error = unwrap(body).error || text || `status ${status}`
      if (isRefusal(status) && status !== 404) return this.server.refused(t, new TipcacheError(status, error))
      if (status >= 500) return t.fail({ code: status, error, final: false })
      t.take({ ...unwrap(body ?? text), status, height, id: '' })
    })
    this.server.block?.(height)
  }
}

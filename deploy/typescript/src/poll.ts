// Polls for one path, for networks where streams do not pass. The server responds to a
// poll once the answer has changed.

import { bodyOf, isRefusal, TipcacheError, unwrap } from './answer.js'
import type { Server } from './connection.js'
import { pause } from './pause.js'
import type { Topic } from './topic.js'

// Milliseconds.
const pollTime = 60_000 // per poll. The server responds after 20 s at most
const firstWait = 1_000 // before a failed poll is repeated
const longestWait = 30_000
const atOnce = 1_000 // without a newer answer, the server keeps a poll open for longer than this

const mostIdle = 3 // number of polls in a row that return at once with nothing newer, until a failure is reported

const start = '0' // the version of a client without an answer

export class Poll {
  readonly #ended = new AbortController()

  #restarted = false // the next answer may be from an earlier block

  constructor(private readonly server: Server, readonly topic: Topic) { void this.#run() }

  close(): void { this.#ended.abort() }

  async #run(): Promise<void> {
    const signal = this.#ended.signal
    let next = this.#after(start), wait = firstWait, idle = 0
    while (!signal.aborted) {
      let rest = 0
      try {
        const began = Date.now(), target = next
        next = await this.#poll(idle ? `${target}&nocache=${began}` : target)
        if (next === target && Date.now() - began < atOnce) throw new Idle()
        wait = firstWait
        idle = 0
      } catch (err) {
        if (signal.aborted) return
        const status = err instanceof TipcacheError ? err.status : 0
        if (isRefusal(status) && next === this.#after(start)) return this.server.refused(this.topic, err as TipcacheError)
        if (isRefusal(status)) { // the server does not know the version that the client has
          next = this.#after(start)
          this.#restarted = true
        }
        if (!(err instanceof Idle) || ++idle >= mostIdle) this.topic.fail({ code: status, error: `${(err as Error).message}; trying again`, final: false })
        rest = (err instanceof TipcacheError && err.retryAfter ? err.retryAfter * 1000 : 0) + wait * (0.5 + Math.random())
        wait = Math.min(2 * wait, longestWait)
      }
      if (rest) await pause(rest, signal).catch(() => {}) // closed
    }
  }

  // poll returns the next URL.
  async #poll(target: string): Promise<string> {
    const late = new AbortController(), end = () => late.abort(this.#ended.signal.reason)
    const timer = setTimeout(() => late.abort(new Error('no response in time')), pollTime)
    this.#ended.signal.addEventListener('abort', end)
    try {
      const response = await this.server.fetch(target, { signal: late.signal, cache: 'default' })
      this.server.session.note(response, undefined)
      const query = /^<\?([^>]*)>; *rel="next"/.exec(response.headers.get('Link') ?? '')?.[1]
      if (query === undefined) {
        await bodyOf(response)
        throw new Error('the server does not support polls')
      }
      if (response.status === 204) this.topic.holds()
      else this.#take(response, await response.json())
      return `${this.topic.target.split('?')[0]}?${query}`
    } finally {
      clearTimeout(timer)
      this.#ended.signal.removeEventListener('abort', end)
    }
  }

  #take(response: Response, body: unknown): void {
    if (this.#ended.signal.aborted) return
    const height = Number(response.headers.get('X-Block-Height') ?? 0)
    if (this.topic.answer && height < this.topic.answer.height && !this.#restarted && !response.headers.has('X-Session-Reset')) {
      if (/stale-/.test(response.headers.get('Cache-Status') ?? '')) return
      throw new Idle()
    }
    this.#restarted = false
    const tag = (response.headers.get('ETag') ?? '').replace(/^(W\/)?"|"$/g, '').replace(/-(gzip|br|zstd)$/, '') // as in stream ids
    this.topic.take({ ...unwrap(body), height, id: `${height}.${tag}` })
  }

  #after(id: string): string {
    const target = this.topic.target
    return `${target}${target.includes('?') ? '&' : '?'}since=${id}`
  }
}

// Idle is a poll that returned at once with nothing newer.
class Idle extends Error {
  constructor() { super('polls return nothing newer: a cache in between may ignore the query') }
}

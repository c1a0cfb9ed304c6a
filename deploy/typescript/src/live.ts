// Followed paths, on as few connections as possible, because browsers allow six per
// origin over HTTP/1.

import { Connection, maxPaths, type Server } from './connection.js'
import { Frames } from './frames.js'
import { Poll } from './poll.js'
import type { Session } from './session.js'
import { Topic, type Live, type LiveListener } from './topic.js'

export type { Failure, Live, LiveAnswer, LiveListener } from './topic.js'

// Milliseconds for which changes are collected before the first connection is opened, and
// before a connection is replaced.
const firstPause = 20
const pause = 250

const pollingTime = 600_000 // until streams are tried again

export class Follower {
  readonly #topics = new Map<string, Topic>()
  #connections: Connection[] = []
  #polls = new Map<Topic, Poll>()
  #frames: Frames | undefined // instead of polls, if block events are requested
  #polling: ReturnType<typeof setTimeout> | undefined // undefined while streams are used
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(private readonly base: string, private readonly request: typeof fetch, private readonly headers: () => Record<string, string>, private readonly session: Session, private readonly block?: (height: number) => void) {}

  follow(target: string, listener: LiveListener<any>): Live<any> {
    const topic = this.#topics.get(target) ?? new Topic(target)
    this.#topics.set(target, topic)
    const live = {
      get answer() { return topic.answer },
      get failure() { return topic.failure },
      close: () => { topic.leave(live); this.#changed() },
    }
    topic.join(live, listener)
    this.#changed()
    return live
  }

  #changed(): void {
    this.#timer ??= setTimeout(() => { this.#timer = undefined; this.#arrange() }, this.#connections.length ? pause : firstPause)
  }

  // arrange assigns every topic to a connection. Topics keep their connection, unless
  // fewer connections suffice.
  #arrange(): void {
    for (const [target, t] of this.#topics) if (!t.followed) this.#topics.delete(target)
    if (this.#polling !== undefined) return this.#arrangePolls()
    const carried = (c: Connection) => c.topics.filter(t => this.#topics.get(t.target) === t)
    this.#connections.sort((a, b) => carried(b).length - carried(a).length)
    for (const c of this.#connections.splice(Math.ceil(this.#topics.size / maxPaths))) c.close()
    const placed = new Set(this.#connections.flatMap(carried))
    const waiting = [...this.#topics.values()].filter(t => !placed.has(t))
    for (const c of this.#connections) {
      const own = carried(c)
      c.carry([...own, ...waiting.splice(0, maxPaths - own.length)])
    }
    while (waiting.length) {
      const c = new Connection({ ...this.#server, block: this.block })
      this.#connections.push(c)
      c.carry(waiting.splice(0, maxPaths))
    }
  }

  // arrangePolls starts a poll for every topic. Streams are tried again after pollingTime, or once nothing is followed any more.
  #arrangePolls(): void {
    for (const [topic, poll] of this.#polls) {
      if (this.#topics.get(topic.target) === topic) continue
      poll.close()
      this.#polls.delete(topic)
    }
    if (this.block) this.#drawFrames(this.block)
    else for (const t of this.#topics.values()) if (!this.#polls.has(t)) this.#polls.set(t, new Poll(this.#server, t))
    if (this.#topics.size === 0) this.#stream()
  }

  #drawFrames(block: (height: number) => void): void {
    this.#frames?.close()
    this.#frames = this.#topics.size > 0 ? new Frames({ ...this.#server, block }, [...this.#topics.values()]) : undefined
  }

  #poll(): void {
    if (this.#polling !== undefined) return
    for (const c of this.#connections.splice(0)) c.close()
    this.#polling = setTimeout(() => { this.#stream(); this.#changed() }, pollingTime)
    this.#arrangePolls()
  }

  #stream(): void {
    clearTimeout(this.#polling)
    this.#polling = undefined
    for (const p of this.#polls.values()) p.close()
    this.#polls.clear()
    this.#frames?.close()
    this.#frames = undefined
  }

  get #server(): Server {
    return {
      fetch: (target, init) => this.request(this.base + target, { cache: 'no-store', ...init, headers: { ...this.headers(), ...init.headers } as Record<string, string> }),
      session: this.session,
      refused: (t, err) => this.#refused(t, err.status, err.message),
      unstreamable: () => this.#poll(),
    }
  }

  #refused(topic: Topic, code: number, error: string): void {
    if (this.#topics.get(topic.target) === topic) this.#topics.delete(topic.target)
    topic.fail({ code, error, final: true })
    this.#changed()
  }
}

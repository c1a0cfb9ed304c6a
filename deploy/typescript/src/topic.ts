// An answer that is followed, and those who follow it.

export interface LiveAnswer<M> {
  /** Empty where the server says 404 for now; `status` tells. */
  msg: M
  status: number
  /** The block that the answer was read at. */
  height: number
  id: string
}

export interface Failure {
  /** The status of HTTP where it was the server that said so; 0 where the connection is lost or silent. */
  code: number
  error: string
  /** Whether it stays so: the server refuses the path. Anything else is tried again. */
  final: boolean
}

export interface LiveListener<M> {
  /** A new answer or, after a failure, the same one where it holds again. */
  answer(answer: LiveAnswer<M>): void
  /** The answer could not be read anew, or the connection is lost: `old` is the last answer, which may hold no more. */
  failure?(failure: Failure, old: LiveAnswer<M> | undefined): void
}

/** An answer that is followed. */
export interface Live<M> {
  /** The last answer. */
  readonly answer: LiveAnswer<M> | undefined
  /** Why the last answer may hold no more; undefined while it holds. */
  readonly failure: Failure | undefined
  close(): void
}

export class Topic {
  answer: LiveAnswer<any> | undefined
  failure: Failure | undefined
  /** Names the last answer where a connection carries several; '' for none. */
  digest = ''
  readonly #listeners = new Map<object, LiveListener<any>>()

  constructor(readonly target: string) {}

  get followed(): boolean { return this.#listeners.size > 0 }

  join(follower: object, listener: LiveListener<any>): void {
    this.#listeners.set(follower, listener)
    queueMicrotask(() => { if (this.#listeners.has(follower)) this.#state(listener) })
  }

  leave(follower: object): void { this.#listeners.delete(follower) }

  take({ msg, status, height, id }: LiveAnswer<any>): void {
    const known = this.answer !== undefined && !this.failure && tagOf(this.answer.id) === tagOf(id)
    this.answer = { msg, status, height, id }
    this.failure = undefined
    if (!known) this.#tell()
  }

  fail(failure: Failure): void {
    const known = this.failure?.code === failure.code && (failure.code === 0 || this.failure.error === failure.error)
    this.failure = failure
    if (!known) this.#tell()
  }

  /** What could not be read anew, or was lost, holds still. */
  holds(): void {
    if (!this.failure || !this.answer) return
    this.failure = undefined
    this.#tell()
  }

  /** The connection that was lost is back, and has brought nothing newer. */
  confirm(): void {
    if (this.failure?.code === 0) this.holds()
  }

  #tell(): void { for (const listener of [...this.#listeners.values()]) this.#state(listener) }

  // state tells a listener how things are. What it throws is its own affair.
  #state(listener: LiveListener<any>): void {
    try {
      if (this.failure) listener.failure?.(this.failure, this.answer)
      else if (this.answer) listener.answer(this.answer)
    } catch (err) {
      queueMicrotask(() => { throw err })
    }
  }
}

// tagOf is what an id says of the content, whatever the block.
function tagOf(id: string): string { return id.slice(id.indexOf('.') + 1) }

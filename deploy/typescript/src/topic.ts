// A followed answer and its listeners.

export interface LiveAnswer<M> {
  /** Empty if `status` is 404. */
  msg: M
  status: number
  /** The block at which the answer was read. */
  height: number
  id: string
}

export interface Failure {
  /** HTTP status of the server's error; 0 if the connection is lost or silent. */
  code: number
  error: string
  /** Whether the server refuses the path, so that the client does not retry. */
  final: boolean
}

export interface LiveListener<M> {
  /** Called with a new answer, and after a failure also with the same answer once it is confirmed. */
  answer(answer: LiveAnswer<M>): void
  /** Called if the answer could not be refreshed, or if the connection is lost. `old` is the last answer, which may be outdated. */
  failure?(failure: Failure, old: LiveAnswer<M> | undefined): void
}

/** A followed answer. */
export interface Live<M> {
  /** The last answer. */
  readonly answer: LiveAnswer<M> | undefined
  /** Why the last answer may be outdated; undefined if it is current. */
  readonly failure: Failure | undefined
  close(): void
}

export class Topic {
  answer: LiveAnswer<any> | undefined
  failure: Failure | undefined
  /** Id of the last answer on a connection with several paths; '' for none. */
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

  /** Clears the failure, because the server confirmed that the answer is still current. */
  holds(): void {
    if (!this.failure || !this.answer) return
    this.failure = undefined
    this.#tell()
  }

  /** Clears the failure of a lost connection, because it is back and delivered nothing newer. */
  confirm(): void {
    if (this.failure?.code === 0) this.holds()
  }

  #tell(): void { for (const listener of [...this.#listeners.values()]) this.#state(listener) }

  #state(listener: LiveListener<any>): void {
    notify(() => {
      if (this.failure) listener.failure?.(this.failure, this.answer)
      else if (this.answer) listener.answer(this.answer)
    })
  }
}

/** Calls a listener. An error that it throws becomes an uncaught one, and disturbs nothing else. */
export function notify(listener: () => void): void {
  try { listener() } catch (err) { queueMicrotask(() => { throw err }) }
}

// tagOf returns the part of an id that identifies the content.
function tagOf(id: string): string { return id.slice(id.indexOf('.') + 1) }

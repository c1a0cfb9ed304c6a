// The newest block that a client has seen.

/** Session stores the greatest X-Session of all answers. The client sends it with each request. */
export class Session {
  #token: string | undefined

  /** The value of X-Session to send; undefined before the first answer. */
  get token(): string | undefined { return this.#token }

  /** Reports whether an answer is from an earlier block than the sent session and not marked as stale, so that a cache in between must have returned it. */
  isBehind(response: Response, sent: string | undefined): boolean {
    const height = Number(response.headers.get('X-Block-Height') ?? NaN)
    const marked = /stale-/.test(response.headers.get('Cache-Status') ?? '')
    return sent !== undefined && height < heightOf(sent) && !marked && !this.#begins(response)
  }

  /** Records the session of an answer. A reset counts only if its request carried the current session, because answers to earlier requests may arrive later. */
  note(response: Response, sent: string | undefined): void {
    if (this.#begins(response) && sent === this.#token) this.#token = undefined
    this.reach(response.headers.get('X-Session'))
  }

  /** Records a session from a block event. */
  reach(token: string | null | undefined): void {
    if (token && (this.#token === undefined || heightOf(token) >= heightOf(this.#token))) this.#token = token
  }

  #begins(response: Response): boolean { return response.headers.has('X-Session-Reset') }
}

/** Returns the block of a session. */
export function heightOf(token: string): number { return Number.parseInt(token, 10) }

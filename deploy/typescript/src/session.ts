// How far a client has seen the chain.

/** Keeps the greatest X-Session of the answers, and sends it back. */
export class Session {
  #token: string | undefined

  /** What to send, if there is anything. */
  get token(): string | undefined { return this.#token }

  /** Whether an answer to what was sent is of an earlier block than the session, and does not say so. A cache in between gave it. */
  isBehind(response: Response, sent: string | undefined): boolean {
    const height = Number(response.headers.get('X-Block-Height') ?? NaN)
    const marked = /stale-/.test(response.headers.get('Cache-Status') ?? '')
    return sent !== undefined && height < heightOf(sent) && !marked && !this.#begins(response)
  }

  /** Takes note of an answer to what was sent. One that begins anew does so once: answers to what was sent before may come later. */
  note(response: Response, sent: string | undefined): void {
    if (this.#begins(response) && sent === this.#token) this.#token = undefined
    this.reach(response.headers.get('X-Session'))
  }

  /** Takes note of a token, as a block of a stream tells it. */
  reach(token: string | null | undefined): void {
    if (token && (this.#token === undefined || heightOf(token) >= heightOf(this.#token))) this.#token = token
  }

  #begins(response: Response): boolean { return response.headers.has('X-Session-Reset') }
}

function heightOf(token: string): number { return Number.parseInt(token, 10) }

// How far a client has seen the chain.

/** Stores the greatest X-Session of the answers, to send it back. */
export class Session {
  #token: string | undefined

  /** What to send, if there is anything. */
  get token(): string | undefined { return this.#token }

  /** Whether an answer is from an earlier block than the sent session without saying so: a cache in between returned it. */
  isBehind(response: Response, sent: string | undefined): boolean {
    const height = Number(response.headers.get('X-Block-Height') ?? NaN)
    const marked = /stale-/.test(response.headers.get('Cache-Status') ?? '')
    return sent !== undefined && height < heightOf(sent) && !marked && !this.#begins(response)
  }

  /** Records an answer. A reset applies once, because answers to earlier requests may arrive later. */
  note(response: Response, sent: string | undefined): void {
    if (this.#begins(response) && sent === this.#token) this.#token = undefined
    this.reach(response.headers.get('X-Session'))
  }

  /** Records a token from a block event. */
  reach(token: string | null | undefined): void {
    if (token && (this.#token === undefined || heightOf(token) >= heightOf(this.#token))) this.#token = token
  }

  #begins(response: Response): boolean { return response.headers.has('X-Session-Reset') }
}

function heightOf(token: string): number { return Number.parseInt(token, 10) }

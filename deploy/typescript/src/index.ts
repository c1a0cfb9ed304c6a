// Client of tipcache. It has no dependencies and runs in browsers and Node.

import type { paths } from './schema.js'

export type { paths, components, operations } from './schema.js'

/** The paths that are read with GET, and what `msg` of their answers is. */
export type GetPath = { [P in keyof paths]: paths[P] extends { get: { responses: { 200: { content: { 'application/json': { msg: unknown } } } } } } ? P : never }[keyof paths]
export type Msg<P extends GetPath> = paths[P] extends { get: { responses: { 200: { content: { 'application/json': { msg: infer M } } } } } } ? M : never

/** Parameters of a path and its query, by name. */
export type Parameters = Record<string, string | number | boolean | undefined>

export interface ReadOptions {
  params?: Parameters
  /** Read at this block. */
  height?: number
  /** Wait until this block has come, to see one's own write. */
  minHeight?: number
  /** Wait until what this block of the execution chain did counts, to see one's own transaction. */
  minEvmBlock?: number
  signal?: AbortSignal
}

export interface Answer<M> {
  msg: M
  /** The block that the answer holds at; undefined where no node tells of it. */
  height: number | undefined
  etag: string
  response: Response
}

export interface ClientOptions {
  /** Sent with every request, where the server asks for one. */
  apiKey?: string
  /** Stands in for the global fetch and EventSource. */
  fetch?: typeof fetch
  EventSource?: typeof EventSource
}

/** What the server says where it refuses or fails. */
export class TipcacheError extends Error {
  constructor(readonly status: number, message: string, readonly retryAfter: number | undefined) {
    super(message)
    this.name = 'TipcacheError'
  }
}

export class Tipcache {
  readonly #base: string
  readonly #options: ClientOptions

  constructor(baseUrl: string, options: ClientOptions = {}) {
    this.#base = baseUrl.replace(/\/+$/, '')
    this.#options = options
  }

  /** Reads an answer. A refusal is thrown as a TipcacheError. */
  async get<P extends GetPath>(path: P, options: ReadOptions = {}): Promise<Answer<Msg<P>>> {
    const headers: Record<string, string> = {}
    if (this.#options.apiKey) headers['X-Api-Key'] = this.#options.apiKey
    if (options.height !== undefined) headers['X-Block-Height'] = String(options.height)
    if (options.minHeight !== undefined) headers['X-Min-Block-Height'] = String(options.minHeight)
    if (options.minEvmBlock !== undefined) headers['X-Min-Evm-Block'] = String(options.minEvmBlock)
    const request = this.#options.fetch ?? fetch
    const response = await request(this.#base + target(path, options.params), { headers, signal: options.signal ?? null })
    const body = await bodyOf(response)
    if (!response.ok) {
      const after = Number(response.headers.get('Retry-After') ?? NaN)
      throw new TipcacheError(response.status, body?.error || response.statusText, Number.isNaN(after) ? undefined : after)
    }
    const height = response.headers.get('X-Block-Height')
    return { msg: body.msg, height: height ? Number(height) : undefined, etag: response.headers.get('ETag') ?? '', response }
  }

  /**
   * Walks over a list, page by page, as of one block: the next page is read at
   * the block of the first one. Where no node has that block any more, the walk
   * goes on at the newest, and the height of the answers says so.
   */
  async *pages<P extends GetPath>(path: P, options: ReadOptions = {}): AsyncGenerator<Answer<Msg<P>>, void, undefined> {
    let key: string | undefined
    do {
      const params: Parameters = { ...options.params }
      if (key !== undefined) {
        params['pagination.key'] = key
        delete params['pagination.offset']
      }
      const page = await this.get(path, { ...options, params })
      yield page
      key = nextKey(page)
    } while (key !== undefined)
  }

  /** Waits until the server has seen a block. The server bounds each wait; this one ends with the signal. */
  async waitFor(height: number, options: { signal?: AbortSignal } = {}): Promise<void> {
    for (;;) {
      options.signal?.throwIfAborted()
      try {
        await this.get('/staking/params' as GetPath, { minHeight: height, ...options })
        return
      } catch (err) {
        if (!(err instanceof TipcacheError) || (err.status !== 503 && err.status !== 504)) throw err
        await pause((err.retryAfter ?? 1) * 1000, options.signal)
      }
    }
  }

  /**
   * Follows an answer: now, and again whenever a block changes it. A connection
   * that the browser's EventSource gives up is made anew, from where it ended.
   */
  live<P extends GetPath>(path: P, listener: LiveListener<Msg<P>>, options: { params?: Parameters } = {}): Live {
    return new Live(this.#base + target(path, options.params), this.#options, listener as LiveListener<unknown>)
  }
}

export interface LiveListener<M> {
  /** A new answer. Where the server says 404 for now, `msg` is empty and `status` tells. */
  answer(answer: { msg: M; status: number; height: number; id: string }): void
  /** The answer could not be read anew, or the connection is lost; both are tried again. */
  failure?(error: { code: number; error: string }): void
}

/** A stream of one answer. */
export class Live {
  #source: EventSource | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #lastId = ''
  #closed = false
  #wait = 1000

  constructor(private readonly url: string, private readonly options: ClientOptions, private readonly listener: LiveListener<unknown>) {
    this.#open()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#source?.close()
  }

  #open(): void {
    const url = new URL(this.url, globalThis.location?.href)
    if (this.options.apiKey) url.searchParams.set('stream.api_key', this.options.apiKey)
    if (this.#lastId) url.searchParams.set('stream.last_event_id', this.#lastId)
    const Source = this.options.EventSource ?? EventSource
    const source = new Source(url.toString())
    this.#source = source
    source.onmessage = e => {
      this.#wait = 1000
      this.#lastId = e.lastEventId
      const body = JSON.parse(e.data)
      this.listener.answer({ msg: body.msg, status: body.code, height: Number(e.lastEventId.split('.')[0]), id: e.lastEventId })
    }
    source.addEventListener('failure', e => this.listener.failure?.(JSON.parse((e as MessageEvent).data)))
    source.onerror = () => {
      if (this.#closed || source.readyState !== 2 /* CLOSED: it does not try again */) return
      source.close()
      this.listener.failure?.({ code: 0, error: 'the connection was refused; trying again' })
      this.#timer = setTimeout(() => this.#open(), this.#wait * (0.5 + Math.random()))
      this.#wait = Math.min(2 * this.#wait, 30_000)
    }
  }
}

// target fills the parameters into the path, and the others into its query.
function target(path: string, params: Parameters = {}): string {
  const query = new URLSearchParams()
  const left = new Map(Object.entries(params).filter(([, value]) => value !== undefined))
  const filled = path.replace(/\{([a-z_]+)\}/g, (_, name: string) => {
    const value = left.get(name)
    if (value === undefined) throw new TypeError(`${path} needs ${name}`)
    left.delete(name)
    return encodeURIComponent(String(value))
  })
  for (const [name, value] of left) query.set(name, String(value))
  return query.size > 0 ? `${filled}?${query}` : filled
}

async function bodyOf(response: Response): Promise<any> {
  try {
    return await response.json()
  } catch {
    if (response.ok) throw new TipcacheError(response.status, 'the answer is not JSON', undefined)
    return undefined
  }
}

// nextKey is the key of the page after this one: in the body or, where the list
// is all there is, in the Link header.
function nextKey(page: Answer<unknown>): string | undefined {
  const pagination = (page.msg as { pagination?: { next_key?: string | null } } | null)?.pagination
  if (pagination?.next_key) return pagination.next_key
  const link = /<([^>]*)>;\s*rel="next"/.exec(page.response.headers.get('Link') ?? '')
  return link ? new URL(link[1]!, 'http://host').searchParams.get('pagination.key') ?? undefined : undefined
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => { clearTimeout(timer); reject(signal!.reason) }
    const timer = setTimeout(() => { signal?.removeEventListener('abort', abort); resolve() }, ms)
    signal?.addEventListener('abort', abort, { once: true })
  })
}

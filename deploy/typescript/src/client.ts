// Client of tipcache. It has no dependencies and runs in browsers and Node.

import { bodyOf, isRefusal, TipcacheError, unreachable, unwrap, type Answer } from './answer.js'
import { maxPaths } from './connection.js'
import { Follower, type Live, type LiveListener } from './live.js'
import { pause } from './pause.js'
import { Session } from './session.js'
import { notify } from './topic.js'
import type { Arguments, CollectionsPage, CollectionsRequest, Dialect, GetPath, Height, Msg, OfParts, Part, Parts } from './types.js'

// Milliseconds.
const firstWait = 1_000 // pause before a failed attempt is repeated
const longestWait = 15_000
const receiptTime = 30_000 // default timeout of waitForReceipt

export interface ClientOptions {
  /** Sent with every request, if the server requires a key. */
  apiKey?: string
  /** Names blocks in the URL instead of headers, for servers behind a CDN. */
  heightsInUrl?: boolean
  /** Replaces the global fetch. */
  fetch?: typeof fetch
}

export interface ReadOptions {
  /** Read at this block. */
  height?: number
  /** Wait until this block has arrived, so that the response includes one's own transaction. */
  minHeight?: number
  /** The same for a block of the execution chain. */
  minEvmBlock?: number
  signal?: AbortSignal
}

/** The receipt of a transaction of the execution chain, from ethers, viem or JSON-RPC. */
export interface Receipt { blockNumber: number | bigint | string }

/** Responses that were all read at one block. */
export interface Batch<A> { height: number; answers: A; etag: string; response: Response }

// Blocks are the blocks that a request names. minHeight may also be a session token.
type Blocks = Omit<ReadOptions, 'minHeight'> & { minHeight?: number | string | undefined }

export class Client<D extends Dialect> {
  readonly #base: string
  readonly #options: ClientOptions
  readonly #fetch: typeof fetch
  readonly #session = new Session()
  #follower: Follower | undefined

  /** @param probe a path that is cheap to read */
  constructor(baseUrl: string, options: ClientOptions = {}, private readonly probe = '/staking/params') {
    const request = options.fetch ?? globalThis.fetch
    if (typeof request !== 'function') throw new TypeError('tipcache needs fetch, which Node has since version 18: pass one as an option, new Tipcache(url, { fetch })')
    this.#base = baseUrl.replace(/\/+$/, '')
    this.#options = options
    this.#fetch = (input, init) => request(input, init).catch(unreachable) // browsers reject fetch as a method of another object
  }

  /** Reads a path. Throws a TipcacheError if the server refuses, fails or cannot be reached. */
  async get<P extends GetPath<D>>(path: P, ...[options]: Arguments<ReadOptions, P, D>): Promise<Answer<Msg<P, D>, Height<P, D>>> {
    return this.#get(path, options?.params, options)
  }

  async #get<P extends GetPath<D>>(path: P, params: object | undefined, options: ReadOptions | undefined): Promise<Answer<Msg<P, D>, Height<P, D>>> {
    const answer = await this.read<Msg<P, D>>(target(path, params), options)
    const passedOn = /tipcache; fwd=bypass/.test(answer.response.headers.get('Cache-Status') ?? '')
    return { ...answer, height: (answer.height ?? (passedOn ? undefined : 0)) as Height<P, D> }
  }

  /**
   * Reads a path and query that the OpenAPI document does not list, such as those of a custom module.
   * The answer is not from an earlier block than those before it, unless Cache-Status says that it is stale,
   * the chain was rolled back, or the request names a height or a page key.
   */
  async read<M = any>(pathAndQuery: string, options: ReadOptions = {}): Promise<Answer<M>> {
    const response = await this.#respond(pathAndQuery, options)
    const { msg } = unwrap(await bodyOf(response))
    const height = response.headers.get('X-Block-Height')
    return { msg, height: height ? Number(height) : undefined, etag: response.headers.get('ETag') ?? '', response }
  }

  /**
   * Reads a list page by page, all pages at the block of the first one. If no node has that block any more, later
   * pages are from a newer block, as their height shows. With `chain.shape: node`, nodes without piplabs/story#827
   * read page keys in another form, and return an empty second page.
   */
  async *pages<P extends GetPath<D>>(path: P, ...[options]: Arguments<ReadOptions, P, D>): AsyncGenerator<Answer<Msg<P, D>, Height<P, D>>, void, undefined> {
    const params: Record<string, unknown> = { ...options?.params }
    let pinned: { height: number; signal?: AbortSignal } | undefined
    for (;;) {
      const read = (at: ReadOptions | undefined) => this.#get(path, params, at)
      const page = await read(pinned ?? options).catch((err: TipcacheError) => {
        if (!pinned || ![400, 404, 500].includes(err.status)) throw err
        return read({ ...options, minHeight: pinned.height }) // the block is pruned, or has not arrived at this replica
      })
      yield page
      const key = nextKey(page)
      if (key === undefined) return
      params['pagination.key'] = key
      delete params['pagination.offset']
      if (options?.height === undefined && page.height) pinned = { height: page.height, ...options?.signal && { signal: options.signal } }
    }
  }

  /** Reads up to twenty paths at one block. For a path that fails, the answer has its status and error. */
  async batch<const T extends readonly Part<D>[]>(parts: Parts<T, D>, options: ReadOptions = {}): Promise<Batch<OfParts<T, D, 'batch'>>> {
    return this.#batch(parts, options)
  }

  async #batch<const T extends readonly Part<D>[]>(parts: Parts<T, D>, options: Blocks): Promise<Batch<OfParts<T, D, 'batch'>>> {
    const query = new URLSearchParams(targets(parts).map(path => ['path', path]))
    const response = await this.#respond(`/batch?${query}`, options)
    const { height, answers } = await bodyOf(response)
    return { height, answers: answers.map(member), etag: response.headers.get('ETag') ?? '', response }
  }

  /** Returns a page of collections. Filter by an address to get a single one. Most servers require an API key. */
  async collections(request: CollectionsRequest<D> = {} as CollectionsRequest<D>, options: Pick<ReadOptions, 'minEvmBlock' | 'signal'> = {}): Promise<CollectionsPage<D> & { evmBlock: number | undefined }> {
    const headers = { ...this.#headers(options), 'Content-Type': 'application/json' }
    const response = await this.#fetch(this.#base + this.#named('/api/v4/collections', options), { method: 'POST', headers, body: JSON.stringify(request), signal: options.signal ?? null })
    const block = response.headers.get('X-Evm-Block')
    return { ...await bodyOf(response), evmBlock: block ? Number(block) : undefined }
  }

  /** Waits until the server has seen a block. It has no timeout: pass a signal. It throws if the server refuses the request. */
  async waitFor(height: number, options: { signal?: AbortSignal } = {}): Promise<void> {
    await repeated(() => this.read(this.probe, { minHeight: height, ...options }), options.signal)
  }

  /**
   * Waits until the chain's state includes the block of a receipt, and returns the first responses
   * that include it. It rejects with a TipcacheError: with status 504 if that takes longer than
   * `timeout` milliseconds (default 30,000), and with status 409 if the chain was rolled back
   * meanwhile, so that the transaction may be lost. `signal` ends the wait with its own reason.
   */
  async waitForReceipt<const T extends readonly Part<D>[]>(receipt: Receipt, parts: Parts<T, D>, options: { timeout?: number; signal?: AbortSignal } = {}): Promise<Batch<OfParts<T, D, 'batch'>>> {
    const minEvmBlock = Number(BigInt(receipt.blockNumber)), timeout = options.timeout ?? receiptTime
    let since: string | undefined // the block at the start of the wait: the server answers 409 if it is rolled back
    const late = AbortSignal.timeout(timeout), signal = options.signal ? AbortSignal.any([options.signal, late]) : late
    try {
      return await repeated(async () => {
        if (this.#session.token === undefined) await this.read(this.probe, { signal })
        since ??= this.#session.token
        return this.#batch(parts, { minEvmBlock, minHeight: since, signal })
      }, signal)
    } catch (err) {
      if (!late.aborted || options.signal?.aborted) throw err
      throw new TipcacheError(504, `block ${minEvmBlock} of the execution chain is not included after ${timeout} ms`, undefined, [], { cause: err })
    }
  }

  /**
   * Follows a path: calls `listener.answer` now, and again whenever a block changes the answer. Up to twenty
   * paths share a connection. If the connection is lost, `listener.failure` is called at once, and a new
   * connection continues where the old one ended.
   */
  live<P extends GetPath<D>>(path: P, listener: LiveListener<Msg<P, D>>, ...[options]: Arguments<{}, P, D>): Live<Msg<P, D>> {
    this.#follower ??= new Follower(this.#base, this.#fetch, () => this.#headers({}), this.#session)
    return this.#follower.follow(target(path, options?.params), listener)
  }

  /**
   * Follows up to twenty paths, and calls `draw` with all answers once a block is complete. Answers without
   * a `failure` are from the block `height`.
   */
  frames<const T extends readonly Part<D>[]>(parts: Parts<T, D>, draw: (frame: { height: number; answers: OfParts<T, D, 'frame'> }) => void): { close(): void } {
    const all = targets(parts)
    if (new Set(all).size > maxPaths) throw new RangeError(`a frame has ${maxPaths} paths at most`)
    const follower = new Follower(this.#base, this.#fetch, () => this.#headers({}), this.#session, height => notify(() => draw({ height, answers: lives.map(drawn) as OfParts<T, D, 'frame'> })))
    const lives = all.map(path => follower.follow(path, { answer() {} }))
    return { close: () => lives.forEach(l => l.close()) }
  }

  // respond sends a request with the client's session. If a cache in between returns an older answer, it repeats the request with
  // the session in the URL.
  async #respond(pathAndQuery: string, options: Blocks): Promise<Response> {
    const ask = (target: string, headers: Record<string, string>) => this.#fetch(this.#base + target, { headers, signal: options.signal ?? null })
    const target = this.#named(pathAndQuery, options), headers = this.#headers(options)
    if (options.height !== undefined || pathAndQuery.includes('pagination.key=')) return ask(target, headers)
    const sent = this.#session.token
    if (sent !== undefined) headers['X-Session'] = sent
    let response = await ask(target, headers)
    if (this.#session.isBehind(response, sent) && options.minHeight === undefined) {
      const again = await ask(withQuery(target, { 'x-min-block-height': sent! }), headers)
      const dropped = again.ok ? response : again
      dropped.body?.cancel().catch(() => {}) // an unread body occupies its connection
      if (again.ok) response = again // otherwise the older answer is returned
    }
    this.#session.note(response, sent)
    return response
  }

  // named returns the target with the blocks as parameters, if heightsInUrl is set.
  #named(pathAndQuery: string, options: Blocks): string {
    return withQuery(pathAndQuery, this.#options.heightsInUrl ? heights('x-block-height', 'x-min-block-height', 'x-min-evm-block', options) : {})
  }

  #headers(options: Blocks): Record<string, string> {
    const headers: Record<string, string> = {}
    if (this.#options.apiKey) headers['X-Api-Key'] = this.#options.apiKey
    if (!this.#options.heightsInUrl) Object.assign(headers, heights('X-Block-Height', 'X-Min-Block-Height', 'X-Min-Evm-Block', options))
    return headers
  }
}

// repeated retries an attempt until it succeeds, is refused, or the signal aborts. The time that the server
// waited before a 504 counts as part of the pause.
async function repeated<R>(attempt: () => Promise<R>, signal: AbortSignal | undefined): Promise<R> {
  for (let wait = firstWait; ; wait = Math.min(2 * wait, longestWait)) {
    signal?.throwIfAborted()
    const began = Date.now()
    try {
      return await attempt()
    } catch (err) {
      if (!(err instanceof TipcacheError) || isRefusal(err.status)) throw err
      const waited = err.status === 504 ? Date.now() - began : 0
      await pause((err.retryAfter !== undefined ? err.retryAfter * 1000 : wait * (0.5 + Math.random())) - waited, signal)
    }
  }
}

// heights returns the blocks that a request names, by header or parameter.
function heights(at: string, min: string, minEvm: string, { height, minHeight, minEvmBlock }: Blocks): Record<string, string> {
  const named: Record<string, string> = {}
  if (height !== undefined) named[at] = String(height)
  if (minHeight !== undefined) named[min] = String(minHeight)
  if (minEvmBlock !== undefined) named[minEvm] = String(minEvmBlock)
  return named
}

// targets returns the paths and queries of parts.
function targets(parts: readonly (string | { path: string; params?: object })[]): string[] {
  return parts.map(part => typeof part === 'string' ? target(part) : target(part.path, part.params))
}

function member({ path, status, body, text, link }: any) {
  if (status !== 200) return { path, status, error: body === undefined ? text : unwrap(body).error }
  return { path, status, msg: unwrap(body).msg, link }
}

// drawn returns an answer of a complete block. A failure with code 0 is outdated, because the connection is back.
function drawn({ answer, failure }: Live<any>) {
  return { answer, failure: failure?.code === 0 ? undefined : failure }
}

function withQuery(target: string, more: Record<string, string>): string {
  const query = new URLSearchParams(more).toString()
  return query === '' ? target : target + (target.includes('?') ? '&' : '?') + query
}

// target fills parameters into the path, and the others into the query.
function target(path: string, params: object = {}): string {
  const query = new URLSearchParams()
  const left = new Map(Object.entries(params).filter(([, value]) => value !== undefined))
  const filled = path.replace(/\{([a-z_]+)\}/g, (_, name: string) => {
    const value = left.get(name)
    if (value === undefined || value === '') throw new TypeError(`${path} needs ${name}`)
    left.delete(name)
    return encodeURIComponent(String(value))
  })
  for (const [name, value] of left) query.set(name, String(value))
  return left.size > 0 ? `${filled}?${query}` : filled
}

// nextKey returns the key of the next page: from the body or, if the body is only
// the list, from the Link header.
function nextKey(page: Answer<unknown>): string | undefined {
  const pagination = (page.msg as { pagination?: { next_key?: string | null } } | null)?.pagination
  if (pagination?.next_key) return pagination.next_key
  const link = /<([^>]*)>;\s*rel="next"/.exec(page.response.headers.get('Link') ?? '')
  return link ? new URL(link[1]!, 'http://host').searchParams.get('pagination.key') ?? undefined : undefined
}

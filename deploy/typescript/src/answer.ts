// Responses and errors of the server.

export interface Answer<M, H extends number | undefined = number | undefined> {
  msg: M
  /** The block at which the answer was read: 0 while the server does not know the newest block, undefined if the path was passed on to a node that names none. */
  height: H
  etag: string
  response: Response
}

/** A parameter or header that the collection listing rejected. */
export interface Violation {
  location?: string
  message?: string
  value?: unknown
}

/** The error of a request: the server refused it, failed, or could not be reached. */
export class TipcacheError extends Error {
  /**
   * @param status HTTP status; 0 if the server cannot be reached or the connection is lost
   * @param retryAfter seconds after which to retry; undefined if the server does not say
   * @param violations what is invalid in a request for collections
   */
  constructor(readonly status: number, message: string, readonly retryAfter?: number, readonly violations: Violation[] = [], options?: ErrorOptions) {
    super(message, options)
    this.name = 'TipcacheError'
  }
}

/** Reads the envelope of a Story response, or an error of a Cosmos SDK chain. In other bodies, `msg` is the whole body. */
export function unwrap(body: any): { msg: any; status: number; error: string } {
  if (typeof body?.code === 'number' && 'msg' in body && typeof body.error === 'string') return { msg: body.msg, status: body.code, error: body.error }
  if (typeof body?.code === 'number' && typeof body.message === 'string') return { msg: {}, status: statusOf(body.code), error: body.message }
  return { msg: body, status: 200, error: '' }
}

// statusOf returns the HTTP status of a gRPC code.
function statusOf(code: number): number {
  return { 3: 400, 5: 404, 9: 400, 11: 400, 12: 501, 14: 503 }[code] ?? 500
}

/** Replaces the TypeError of a connection that is not established or lost. It rethrows other errors, such as an abort. */
export function unreachable(err: unknown): never {
  if (err instanceof TypeError) throw new TipcacheError(0, `the server cannot be reached: ${err.message}`, undefined, [], { cause: err })
  throw err
}

/** Returns the JSON of a successful response, and throws a TipcacheError for any other one. */
export async function bodyOf(response: Response): Promise<any> {
  const text = await response.text().catch(unreachable)
  let body: any
  try { body = JSON.parse(text) } catch {}
  if (response.ok && body !== undefined) return body
  const after = Number(response.headers.get('Retry-After') ?? NaN)
  const said = response.ok ? 'the response is not JSON' : body?.detail || (body && unwrap(body).error) || response.statusText || `status ${response.status}`
  throw new TipcacheError(response.status, said, Number.isNaN(after) ? undefined : after, body?.errors ?? [])
}

/** Reports whether the server refused the request for a reason that a retry does not change. */
export function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && ![408, 425, 429].includes(status)
}

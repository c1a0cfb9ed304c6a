// What the OpenAPI documents say of paths, parameters and answers.

import type { Failure, LiveAnswer } from './topic.js'

/** The paths of each dialect. Each entry point of the package adds the one it is for, so that only its types are loaded. */
export interface Documents {}

/** The API of the nodes: Story's own paths, or the paths of any chain of the Cosmos SDK. */
export type Dialect = keyof Documents

type Paths<D extends Dialect> = Documents[D]

type BodyOf<Item> = Item extends { get: { responses: { 200: { content: { 'application/json': infer B } } } } } ? B : never

/** The paths that are read with GET. */
export type GetPath<D extends Dialect = Dialect> = Exclude<{ [P in keyof Paths<D>]: [BodyOf<Paths<D>[P]>] extends [never] ? never : P }[keyof Paths<D>] & string, '/batch'>

// An object of which the document says nothing may have any members.
type Described<T> = [T] extends [Record<string, never>] ? Record<string, any> : T

/** What is answered on a path: `msg` of the envelope or, in the Cosmos SDK's dialect, the body. */
export type Msg<P extends GetPath<D>, D extends Dialect = Dialect> =
  BodyOf<Paths<D>[P]> extends { msg: infer M } ? Described<M> : Described<BodyOf<Paths<D>[P]>>

type Given<Item> = Item extends { get: { parameters: infer G } } ? G : never
type InPath<Item> = Given<Item> extends { path: infer G } ? G : {}
type InQuery<Item> = Given<Item> extends { query?: infer G } ? ([NonNullable<G>] extends [never] ? {} : NonNullable<G>) : {}

// Integers are texts in the documents; a number does as well.
type Value<T> = T extends string ? (string extends T ? string | number | bigint : T) : T

/** The parameters of a path and of its query, by name. */
export type Parameters<P extends GetPath<D>, D extends Dialect = Dialect> =
  { [K in keyof InPath<Paths<D>[P]>]: Value<InPath<Paths<D>[P]>[K]> } & { [K in keyof InQuery<Paths<D>[P]>]: Value<InQuery<Paths<D>[P]>[K]> }

/** Options with the parameters of a path, which may be left out where none is required. */
export type Arguments<O, P extends GetPath<D>, D extends Dialect> = {} extends Parameters<P, D>
  ? [options?: O & { params?: Parameters<P, D> }]
  : [options: O & { params: Parameters<P, D> }]

/** A path of several that are read at one block: alone where it needs no parameters. */
export type Part<D extends Dialect = Dialect> = GetPath<D> | { path: GetPath<D>; params?: object }

// The path of a part, and the part with the parameters that its path takes.
type PathOf<T, D extends Dialect> = T extends GetPath<D> ? T : T extends { path: infer P extends GetPath<D> } ? P : never
type Checked<T, D extends Dialect> = T extends GetPath<D> ? ({} extends Parameters<T, D> ? T : never)
  : T extends { path: infer P extends GetPath<D> } ? { path: P } & ({} extends Parameters<P, D> ? { params?: Parameters<P, D> } : { params: Parameters<P, D> }) : never

/** Parts whose parameters are those of their paths. */
export type Parts<T extends readonly Part<D>[], D extends Dialect> = T & { readonly [K in keyof T]: Checked<T[K], D> }

/** What is made of the answer to each part, in their order. */
export type OfParts<T extends readonly Part<D>[], D extends Dialect, F extends 'batch' | 'frame'> = {
  [K in keyof T]: F extends 'batch' ? BatchAnswer<Msg<PathOf<T[K], D>, D>> : FrameAnswer<Msg<PathOf<T[K], D>, D>>
}

/** One answer of a batch: `msg` where its status is 200, else `error` says why not. */
export type BatchAnswer<M> =
  | { path: string; status: number; msg: M; error?: undefined; link: string | undefined }
  | { path: string; status: number; msg?: undefined; error: string; link?: undefined }

/** One answer of a frame: the last one, and why it is not of the frame's block. */
export type FrameAnswer<M> = { answer: LiveAnswer<M> | undefined; failure: Failure | undefined }

type Listing<D extends Dialect> = Paths<D> extends { '/api/v4/collections': { post: infer L } } ? L : never

/** A request for a page of collections: order, filter and page. */
export type CollectionsRequest<D extends Dialect = Dialect> = Listing<D> extends { requestBody?: { content: { 'application/json': infer B } } } ? B : never

/** A page of collections. */
export type CollectionsPage<D extends Dialect = Dialect> = Listing<D> extends { responses: { 200: { content: { 'application/json': infer B } } } } ? B : never

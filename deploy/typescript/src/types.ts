// Types of paths, parameters and answers, from the OpenAPI documents.

import type { Failure, LiveAnswer } from './topic.js'

/** The paths of each dialect. Each entry point adds its own, so that only those types are loaded. */
export interface Documents {}

/** The dialect of the nodes: story or cosmos. */
export type Dialect = keyof Documents

type Paths<D extends Dialect> = Documents[D]

type BodyOf<Item> = Item extends { get: { responses: { 200: { content: { 'application/json': infer B } } } } } ? B : never

/** The paths that are read with GET. */
export type GetPath<D extends Dialect = Dialect> = Exclude<{ [P in keyof Paths<D>]: [BodyOf<Paths<D>[P]>] extends [never] ? never : P }[keyof Paths<D>] & string, '/batch'>

// Described allows any members in an object without documented ones.
type Described<T> = [T] extends [Record<string, never>] ? Record<string, any> : T

/** The `msg` of a path: that of the envelope or, for Cosmos SDK chains, the whole body. */
export type Msg<P extends GetPath<D>, D extends Dialect = Dialect> =
  BodyOf<Paths<D>[P]> extends { msg: infer M } ? Described<M> : Described<BodyOf<Paths<D>[P]>>

/** The height of an answer. Paths that can be polled are read at a block; the others are passed on to a node. */
export type Height<P extends GetPath<D>, D extends Dialect = Dialect> = InQuery<Paths<D>[P]> extends { since?: unknown } ? number : number | undefined

type Given<Item> = Item extends { get: { parameters: infer G } } ? G : never
type InPath<Item> = Given<Item> extends { path: infer G } ? G : {}
type InQuery<Item> = Given<Item> extends { query?: infer G } ? ([NonNullable<G>] extends [never] ? {} : NonNullable<G>) : {}

// Integers are strings in the documents; numbers are accepted, too.
type Value<T> = T extends string ? (string extends T ? string | number | bigint : T) : T

/** The parameters of a path and of its query, by name. */
export type Parameters<P extends GetPath<D>, D extends Dialect = Dialect> =
  { [K in keyof InPath<Paths<D>[P]>]: Value<InPath<Paths<D>[P]>[K]> } & { [K in keyof InQuery<Paths<D>[P]>]: Value<InQuery<Paths<D>[P]>[K]> }

/** Options with the parameters of a path, which are optional if none is required. */
export type Arguments<O, P extends GetPath<D>, D extends Dialect> = {} extends Parameters<P, D>
  ? [options?: O & { params?: Parameters<P, D> }]
  : [options: O & { params: Parameters<P, D> }]

/** A path to read, or a path with its parameters. */
export type Part<D extends Dialect = Dialect> = GetPath<D> | { path: GetPath<D>; params?: object }

// The path of a part, and the part with the parameters that its path takes.
type PathOf<T, D extends Dialect> = T extends GetPath<D> ? T : T extends { path: infer P extends GetPath<D> } ? P : never
type Checked<T, D extends Dialect> = T extends GetPath<D> ? ({} extends Parameters<T, D> ? T : never)
  : T extends { path: infer P extends GetPath<D> } ? { path: P } & ({} extends Parameters<P, D> ? { params?: Parameters<P, D> } : { params: Parameters<P, D> }) : never

/** Parts checks the parameters of each part against its path. */
export type Parts<T extends readonly Part<D>[], D extends Dialect> = T & { readonly [K in keyof T]: Checked<T[K], D> }

/** The result of each part, in order. */
export type OfParts<T extends readonly Part<D>[], D extends Dialect, F extends 'batch' | 'frame'> = {
  [K in keyof T]: F extends 'batch' ? BatchAnswer<Msg<PathOf<T[K], D>, D>> : FrameAnswer<Msg<PathOf<T[K], D>, D>>
}

/** One answer of a batch: `msg` if its status is 200, otherwise `error`. */
export type BatchAnswer<M> =
  | { path: string; status: number; msg: M; error?: undefined; link: string | undefined }
  | { path: string; status: number; msg?: undefined; error: string; link?: undefined }

/** One answer of a frame. `failure` says why `answer` is not from the frame's block. */
export type FrameAnswer<M> = { answer: LiveAnswer<M> | undefined; failure: Failure | undefined }

type Listing<D extends Dialect> = Paths<D> extends { '/api/v4/collections': { post: infer L } } ? L : never

/** A request for collections, with order, filter and page. */
export type CollectionsRequest<D extends Dialect = Dialect> = Listing<D> extends { requestBody?: { content: { 'application/json': infer B } } } ? B : never

/** A page of collections. */
export type CollectionsPage<D extends Dialect = Dialect> = Listing<D> extends { responses: { 200: { content: { 'application/json': infer B } } } } ? B : never

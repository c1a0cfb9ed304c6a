// What the OpenAPI documents say of paths, parameters and answers.

import type * as cosmos from './cosmos.js'
import type * as story from './story.js'

/** What the nodes speak: Story's own paths, or those of any chain of the Cosmos SDK. */
export type Dialect = 'story' | 'cosmos'

type Paths<D extends Dialect> = D extends 'cosmos' ? cosmos.paths : story.paths

type BodyOf<Item> = Item extends { get: { responses: { 200: { content: { 'application/json': infer B } } } } } ? B : never

/** The paths that are read with GET. */
export type GetPath<D extends Dialect = 'story'> = { [P in keyof Paths<D>]: [BodyOf<Paths<D>[P]>] extends [never] ? never : P }[keyof Paths<D>] & string

// An object of which the document says nothing may have any members.
type Described<T> = [T] extends [Record<string, never>] ? Record<string, any> : T

/** What is answered on a path: `msg` of the envelope or, in the Cosmos SDK's dialect, the body. */
export type Msg<P extends GetPath<D>, D extends Dialect = 'story'> =
  BodyOf<Paths<D>[P]> extends { msg: infer M } ? Described<M> : Described<BodyOf<Paths<D>[P]>>

type Given<Item> = Item extends { get: { parameters: infer G } } ? G : never
type InPath<Item> = Given<Item> extends { path: infer G } ? G : {}
type InQuery<Item> = Given<Item> extends { query?: infer G } ? ([NonNullable<G>] extends [never] ? {} : NonNullable<G>) : {}

// Integers are texts in the documents; a number does as well.
type Value<T> = T extends string ? (string extends T ? string | number | bigint : T) : T

/** The parameters of a path and of its query, by name. */
export type Parameters<P extends GetPath<D>, D extends Dialect = 'story'> =
  { [K in keyof InPath<Paths<D>[P]>]: Value<InPath<Paths<D>[P]>[K]> } & { [K in keyof InQuery<Paths<D>[P]>]: Value<InQuery<Paths<D>[P]>[K]> }

/** Options with the parameters of a path, which may be left out where none is required. */
export type Arguments<O, P extends GetPath<D>, D extends Dialect> = {} extends Parameters<P, D>
  ? [options?: O & { params?: Parameters<P, D> }]
  : [options: O & { params: Parameters<P, D> }]

type Listing = story.paths['/api/v4/collections']['post']

/** What is asked of the listing of collections: order, filter and page. */
export type CollectionsRequest = NonNullable<Listing['requestBody']>['content']['application/json']

/** A page of collections. */
export type CollectionsPage = Listing['responses'][200]['content']['application/json']

// The types and errors that both entry points export.

export { TipcacheError, type Answer, type Violation } from './answer.js'
export type { Batch, ClientOptions, ReadOptions, Receipt } from './client.js'
export type { Failure, Live, LiveAnswer, LiveListener } from './live.js'
export type { BatchAnswer, CollectionsPage, CollectionsRequest, Dialect, FrameAnswer, GetPath, Height, Msg, Parameters, Part } from './types.js'

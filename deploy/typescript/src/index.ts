// The client of a tipcache in front of Story nodes.

import { Client } from './client.js'
import type * as story from './story.js'

declare module './types.js' {
  interface Documents { story: story.paths }
}

export class Tipcache extends Client<'story'> {}

export * from './public.js'

// The client of a tipcache in front of nodes of a Cosmos SDK chain.

import { Client, type ClientOptions } from './client.js'
import type * as cosmos from './cosmos.js'

declare module './types.js' {
  interface Documents { cosmos: cosmos.paths }
}

export class Tipcache extends Client<'cosmos'> {
  constructor(baseUrl: string, options: ClientOptions = {}) { super(baseUrl, options, '/cosmos/staking/v1beta1/params') }
}

export * from './public.js'

// What has to compile, and what must not. It is never run.
import { Tipcache } from '../dist/index.js'
import { Tipcache as SDK, type GetPath } from '../dist/sdk.js'

const chain = new Tipcache('http://127.0.0.1:8080', { apiKey: 'k' })
const sdk = new SDK('http://127.0.0.1:8080')

export async function story(validator_addr: string): Promise<void> {
  const { msg, height } = await chain.get('/staking/validators', { params: { status: 'bonded', 'pagination.limit': 20, 'pagination.reverse': true } })
  const tokens: string | undefined = msg.validators[0]?.tokens
  const one = await chain.get('/staking/validators/{validator_addr}', { params: { validator_addr }, height })
  const moniker: string = one.msg.validator.description.moniker
  const rewards = await chain.get('/distribution/delegators/{delegator_address}/rewards', { params: { delegator_address: '0x' } })
  const total: { denom: string; amount: string }[] | null = rewards.msg.total
  const bonded: string = (await chain.get('/staking/pool')).msg.pool.bonded_tokens
  const { msg: queued } = await chain.get('/evmstaking/withdrawal_queue')
  const amount: string | undefined = queued.withdrawals?.[0]?.amount
  console.log(bonded, amount, height + 1)
  chain.live('/staking/pool', { answer: ({ msg, height }) => console.log(msg, height + 1) })
  chain.live('/staking/validators/{validator_addr}', { answer: a => console.log(a.msg.validator.tokens) }, { params: { validator_addr } })
  for await (const page of chain.pages('/staking/delegations/{delegator_addr}', { params: { delegator_addr: '0x', 'pagination.limit': 5n } })) console.log(page.msg.delegation_responses.length)
  const { answers: [pool, listed] } = await chain.batch(['/staking/pool', { path: '/staking/validators', params: { status: 'bonded' } }])
  if (listed.error === undefined) console.log(listed.msg.validators[0]?.tokens, listed.link)
  chain.frames(['/staking/params', { path: '/staking/validators/{validator_addr}', params: { validator_addr } }], ({ height, answers: [p, v] }) => console.log(height, p.answer?.msg.params.bond_denom, v.answer?.msg.validator.tokens, v.failure?.error))
  console.log(tokens, moniker, total, pool.status)

  // @ts-expect-error no such path
  await chain.batch(['/staking/pool', '/staking/poool'])
  // @ts-expect-error a parameter of the path is missing
  await chain.batch(['/staking/validators/{validator_addr}'])
  // @ts-expect-error a parameter is misspelt
  await chain.batch([{ path: '/staking/validators/{validator_addr}', params: { validator_address: 'x' } }])

  // @ts-expect-error no such parameter
  await chain.get('/staking/validators', { params: { statuss: 'bonded' } })
  // @ts-expect-error a parameter of the path is missing
  await chain.get('/staking/validators/{validator_addr}')
  // @ts-expect-error a parameter of the path is missing
  await chain.get('/staking/validators/{validator_addr}', { params: {} })
  // @ts-expect-error a parameter of the path is misspelt
  await chain.get('/staking/validators/{validator_addr}', { params: { validator_address: validator_addr } })
  // @ts-expect-error a parameter of the query is required
  await chain.get('/bank/supply/by_denom')
  // @ts-expect-error no such path
  await chain.get('/staking/validatorss')
  // @ts-expect-error a flag
  await chain.get('/staking/validators', { params: { 'pagination.reverse': 'maybe' } })
  // @ts-expect-error a path of another dialect
  await chain.get('/cosmos/staking/v1beta1/pool')
  // @ts-expect-error it is a stream
  await chain.get('/live', { params: { path: ['/staking/pool'] } })
  // @ts-expect-error no such parameter
  chain.live('/staking/validators', { answer() {} }, { params: { statuss: 'bonded' } })
  // @ts-expect-error a parameter of the path is missing
  chain.live('/staking/validators/{validator_addr}', { answer() {} })
  // @ts-expect-error a parameter of the path is missing
  chain.pages('/staking/delegations/{delegator_addr}')
  // @ts-expect-error no such member
  console.log(one.msg.validator.token)
  // @ts-expect-error no such member
  console.log((await chain.get('/staking/pool')).msg.pol.bondedTokens)
  // @ts-expect-error a path that is not in the table may be passed on
  console.log((await chain.read('/staking/pool')).height + 1)
}

export async function collections(): Promise<void> {
  const page = await chain.collections({ orderBy: 'assetCount', where: { collectionAddresses: ['0x'] }, pagination: { limit: 3 } })
  const count: number = page.data[0]!.assetCount + page.pagination.total + (page.evmBlock ?? 0)
  await sdk.collections()
  console.log(count)
  // @ts-expect-error no such order
  await chain.collections({ orderBy: 'name' })
}

export async function cosmos(): Promise<void> {
  const path: GetPath<'cosmos'> = '/cosmos/bank/v1beta1/balances/{address}'
  const { msg } = await sdk.get(path, { params: { address: 'cosmos1', 'pagination.limit': 2 } })
  const next: number = (await sdk.get('/cosmos/staking/v1beta1/pool')).height + 1
  console.log(msg.balances[0]?.denom, msg.pagination?.next_key, next)
  // @ts-expect-error the path is passed on
  console.log((await sdk.get('/cosmos/base/{path}', { params: { path: 'node/v1beta1/status' } })).height + 1)
  sdk.live('/cosmos/staking/v1beta1/pool', { answer: ({ msg }) => console.log(msg.pool.bonded_tokens) })
  console.log((await sdk.read<{ pools: string[] }>('/osmosis/gamm/v1beta1/pools')).msg.pools.length)
  // @ts-expect-error no such member
  console.log(msg.balance)
  // @ts-expect-error a parameter of the path is missing
  await sdk.get('/cosmos/bank/v1beta1/balances/{address}')
  // @ts-expect-error no such parameter
  await sdk.get('/cosmos/staking/v1beta1/validators', { params: { statuss: 'BOND_STATUS_BONDED' } })
  // @ts-expect-error a path of another dialect
  await sdk.get('/staking/pool')
}

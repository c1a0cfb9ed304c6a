// The gRPC library of Node, without schemas: unary calls, heights in metadata, and statuses.
import { Client, Metadata, credentials, status } from '@grpc/grpc-js'

const client = new Client(process.argv[2], credentials.createInsecure())
const check = (what, holds) => { if (!holds) throw new Error(what) }
const bytes = (message) => message
const text = (field, value) => Buffer.from([(field << 3) | 2, value.length, ...Buffer.from(value)])

// A call's answer, the height that it is of, and its status.
function call(method, message = Buffer.alloc(0), ...heights) {
  const metadata = new Metadata()
  for (const height of heights) metadata.add('x-cosmos-block-height', String(height))
  return new Promise((resolve) => {
    let height = 0
    client.makeUnaryRequest(method, bytes, bytes, message, metadata, { deadline: Date.now() + 60_000 }, (error, answer) =>
      resolve({ answer, height, code: error?.code ?? status.OK, details: error?.details }))
      .on('metadata', (header) => { height = Number(header.get('x-cosmos-block-height')[0] ?? 0) })
  })
}

const bank = '/cosmos.bank.v1beta1.Query/Balance'
const owner = text(1, 'cosmos1t3mw6fkk9nr558qy6jphu726glyjpl0w8kalv8')
const balance = await call(bank, Buffer.concat([owner, text(2, 'stake')]))
check(`a balance: ${balance.details}`, balance.code === status.OK && balance.answer.includes('stake') && balance.height > 1)
const before = await call(bank, Buffer.concat([owner, text(2, 'stake')]), balance.height - 1)
check(`at a height: ${before.details}, at ${before.height}`, before.code === status.OK && before.height === balance.height - 1)
for (const [what, wanted, got] of [
  ['an address that is none', status.INVALID_ARGUMENT, await call(bank, text(1, 'nobody'))],
  ['a height that comes twice', status.INVALID_ARGUMENT, await call(bank, owner, 7, 7)],
  ['a method that no node has', status.UNIMPLEMENTED, await call('/no.such.Query/Method')],
]) {
  check(`${what}: ${got.code} ${got.details}`, got.code === wanted && got.details !== '')
}
const many = await Promise.all(Array.from({ length: 300 }, () => call('/cosmos.staking.v1beta1.Query/Pool')))
check('300 calls on a connection', many.every((one) => one.code === status.OK && one.height > 0))
console.log('the gRPC library of Node reads a balance at two heights, and is told why not')
process.exit(0)

// CosmJS over the WebSocket of the RPC: it is told of blocks, and waits for transactions
// that it broadcasts, each of which is found as soon as it is told of.
import { createHash, randomBytes } from 'node:crypto'
import { Comet38Client } from '@cosmjs/tendermint-rpc'

const field = (number, value) => Buffer.concat([Buffer.from([(number << 3) | 2, value.length]), Buffer.from(value)])

// send is a transaction that nobody has sent before.
function send(amount) {
  const message = [field(1, `cosmos1${randomBytes(8).toString('hex')}`), field(2, 'cosmos1to'), field(3, Buffer.concat([field(1, 'stake'), field(2, `${amount}`)]))]
  const any = Buffer.concat([field(1, '/cosmos.bank.v1beta1.MsgSend'), field(2, Buffer.concat(message))])
  return Buffer.concat([field(1, field(1, any)), field(2, field(1, ''))])
}

const client = await Comet38Client.connect(process.argv[2])
const heights = []
client.subscribeNewBlock().addListener({ next: (event) => heights.push(event.header.height), error: (error) => { throw error } })
for (let i = 1; i <= 5; i++) {
  const tx = send(i)
  const hash = createHash('sha256').update(tx).digest()
  const told = new Promise((next, error) => {
    client.subscribeTx(`tx.hash='${hash.toString('hex').toUpperCase()}'`).addListener({ next, error })
  })
  const answer = await client.broadcastTxSync({ tx })
  if (answer.code !== 0) throw new Error(`transaction ${i}: ${answer.log}`)
  const event = await told
  const found = await client.tx({ hash })
  if (found.height !== event.height) throw new Error(`told of block ${event.height}, found in ${found.height}`)
}
if (heights.length < 4 || heights.some((height, i) => height !== heights[0] + i)) throw new Error(`told of blocks ${heights}`)
const { block } = await client.block(heights[0])
if (block.header.height !== heights[0]) throw new Error(`block ${heights[0]} is ${block.header.height}`)
console.log('CosmJS waited for 5 transactions and was told of blocks', heights.join(' '))
process.exit(0) // the subscriptions that still last would keep the process

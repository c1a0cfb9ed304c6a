// CosmJS over the RPC by POST: queries one by one and in batches, and a transaction that is
// simulated, signed, broadcast and waited for.
import { DirectSecp256k1Wallet } from '@cosmjs/proto-signing'
import { GasPrice, QueryClient, SigningStargateClient, setupBankExtension, setupStakingExtension } from '@cosmjs/stargate'
import { Comet38Client, HttpBatchClient, HttpClient } from '@cosmjs/tendermint-rpc'

const url = process.argv[2]
const check = (what, holds) => { if (!holds) throw new Error(what) }

const wallet = await DirectSecp256k1Wallet.fromKey(new Uint8Array(32).fill(1), 'cosmos')
const [{ address }] = await wallet.getAccounts()
const other = 'cosmos1t3mw6fkk9nr558qy6jphu726glyjpl0w8kalv8'

// All of a client's calls, which are of one batch each where it sends batches.
async function read(rpc, calls) {
  const client = await Comet38Client.create(rpc)
  const query = QueryClient.withExtensions(client, setupBankExtension, setupStakingExtension)
  return Promise.allSettled(Array.from({ length: calls }, (_, i) =>
    [() => query.bank.balance(address, 'stake'), () => query.bank.allBalances(other), () => query.staking.pool(), () => client.block(1 + (i % 50))][i % 4]()))
}
const answered = (settled) => settled.filter((one) => one.status === 'fulfilled').length
check('HttpClient', answered(await read(new HttpClient(url), 20)) === 20)
for (const size of [20, 100]) {
  const batch = await read(new HttpBatchClient(url, { batchSizeLimit: size, dispatchInterval: 50 }), size)
  check(`a batch of ${size}: ${answered(batch)} are answered`, answered(batch) === size)
}
const tooLong = await read(new HttpBatchClient(url, { batchSizeLimit: 150, dispatchInterval: 50 }), 150)
check('a batch of 150 is refused as a whole, and no call waits', tooLong.length === 150 && tooLong.every((one) => one.status === 'rejected' && /500/.test(one.reason.message)))

const client = await SigningStargateClient.connectWithSigner(url, wallet, { gasPrice: GasPrice.fromString('0.01stake') })
const before = await client.getBalance(address, 'stake')
const { sequence } = await client.getAccount(address)
for (let i = 0; i < 2; i++) {
  const sent = await client.sendTokens(address, other, [{ denom: 'stake', amount: '5' }], 'auto')
  check(`sent: ${sent.rawLog}`, sent.code === 0 && sent.height > 0)
}
check('the sequence', (await client.getSequence(address)).sequence === sequence + 2)
check('the balance', BigInt((await client.getBalance(address, 'stake')).amount) < BigInt(before.amount))
check('a validator', (await client.getDelegation(other, 'cosmosvaloper1js736jheaahhg0jmqdxl0qwsqg02w70v2gxt2u')).amount > '0')
console.log('CosmJS was answered by POST and in batches, and found its transactions')
process.exit(0)

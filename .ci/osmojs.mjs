// A client that telescope has generated, over the RPC by POST.
import osmojs from 'osmojs'

const { cosmos } = await osmojs.cosmos.ClientFactory.createRPCQueryClient({ rpcEndpoint: process.argv[2] })
const delegatorAddr = 'cosmos1t3mw6fkk9nr558qy6jphu726glyjpl0w8kalv8'
const [{ balance }, { delegationResponses }, { account }] = await Promise.all([
  cosmos.bank.v1beta1.balance({ address: delegatorAddr, denom: 'stake' }),
  cosmos.staking.v1beta1.delegatorDelegations({ delegatorAddr }),
  cosmos.auth.v1beta1.account({ address: delegatorAddr }),
])
if (!(BigInt(balance.amount) > 0n) || delegationResponses.length !== 5 || account.address !== delegatorAddr) {
  throw new Error(`${balance.amount}, ${delegationResponses.length} delegations, account ${account?.address}`)
}
console.log('a generated client reads a balance, delegations and an account')

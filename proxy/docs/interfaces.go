package docs

import "net"

// Listeners are the addresses of the other interfaces. "" means not served.
type Listeners struct {
	RPC, GRPC string
	GRPCWeb   bool // served with REST; package proxy sets it
}

// An otherInterface is an interface of the nodes other than REST.
type otherInterface struct {
	ID, Name, Text string
	Samples        []sample
}

// elsewhere is a placeholder for the host of a listener, of which only the port is known.
const elsewhere = "elsewhere.invalid"

// Interfaces returns the interfaces that are served in addition to REST.
func (m manual) Interfaces() (all []otherInterface) {
	at := m.o.Listeners
	if at.RPC != "" {
		all = append(all, m.rpc(elsewhere+portOf(at.RPC)))
	}
	if at.GRPC != "" {
		all = append(all, otherInterface{"grpc", "gRPC", "Any method of the nodes. No schema is needed. " +
			"`x-cosmos-block-height` names the height in requests and responses. gRPC has no `X-Session`; send `x-min-block-height` to wait for a height. `grpcurl` reads the schemas by reflection, which works if this server uses the nodes' gRPC (`chain.grpc`).", []sample{
			{"curl", "grpcurl", "grpcurl -plaintext " + elsewhere + portOf(at.GRPC) + " cosmos.staking.v1beta1.Query/Params"},
			{"Go", "Go", program("grpc.go", elsewhere+portOf(at.GRPC))},
		}})
	}
	if at.GRPCWeb {
		all = append(all, otherInterface{"grpc-web", "gRPC-Web", "The same for browsers, at the address of the REST API.", []sample{
			{"curl", "curl", callByCurl + " -H 'Content-Type: application/grpc-web+proto' | od -c"},
		}})
	}
	return all
}

// portOf returns the port of an address with a leading colon, or "" if any port may be used.
func portOf(address string) string {
	if _, port, err := net.SplitHostPort(address); err == nil && port != "0" {
		return ":" + port
	}
	return ""
}

func (m manual) rpc(at string) otherInterface {
	read := "await client.getBlock()"
	if m.o.Cosmos != nil {
		read = "await client.getAllBalances('" + m.sdk.Values["delegator_addr"] + "')"
	}
	return otherInterface{"rpc", "CometBFT RPC", "For CosmJS, Keplr and relayers: by POST, in batches, by URI, and over the WebSocket at `/websocket`. Events are sent once their block can be read. `tx` with `\"wait\":\"20s\"` answers when the transaction can be found. " +
		"By POST and by URI, requests and responses may carry `X-Session`. The WebSocket has none.", []sample{
		{"curl", "curl", "curl 'http://" + at + "' -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":{}}'"},
		{"TypeScript", "CosmJS", "import { StargateClient } from '@cosmjs/stargate'\n\nconst client = await StargateClient.connect('http://" + at + "')\nconsole.log(await client.getHeight(), " + read + ")"},
		{"Go", "Go", program("comet.go", at)},
	}}
}

// callByCurl sends an empty message in a gRPC frame.
const callByCurl = `printf '\0\0\0\0\0' | curl -s '` + somewhere + `/cosmos.staking.v1beta1.Query/Params' --data-binary @-`

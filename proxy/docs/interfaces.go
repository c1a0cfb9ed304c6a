package docs

import "net"

// Listeners are the addresses of the other interfaces. "" means not served.
type Listeners struct {
	RPC, GRPC string
	TLS       bool // these listeners speak TLS
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
		scheme := "http://"
		if at.TLS {
			scheme = "https://"
		}
		all = append(all, m.rpc(scheme+elsewhere+portOf(at.RPC)))
	}
	if at.GRPC != "" {
		command := "grpcurl -plaintext "
		if at.TLS {
			command = "grpcurl "
		}
		all = append(all, otherInterface{"grpc", "gRPC", "All methods of the nodes. " +
			"`x-cosmos-block-height` in a request selects the height, and in a response it names the height. gRPC has no `X-Session`: send `x-min-block-height` to wait for a height. `grpcurl` needs reflection, which works if the operator has set `chain.grpc`.", []sample{
			{"curl", "grpcurl", command + elsewhere + portOf(at.GRPC) + " cosmos.staking.v1beta1.Query/Params"},
			{"Go", "Go", program("grpc.go", map[string]any{"Address": elsewhere + portOf(at.GRPC), "TLS": at.TLS})},
		}})
	}
	if at.GRPCWeb {
		all = append(all, otherInterface{"grpc-web", "gRPC-Web", "The gRPC API for browsers, at the address of the REST API.", []sample{
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
	return otherInterface{"rpc", "CometBFT RPC", "The CometBFT RPC, as CosmJS, Keplr and relayers use it: by POST, in batches, by URI, and over the WebSocket at `/websocket`. The server sends an event only when its block can be read. With the parameter `\"wait\":\"20s\"`, `tx` waits until the transaction can be found. " +
		"`X-Session` works by POST and by URI, but not over the WebSocket.", []sample{
		{"curl", "curl", "curl '" + at + "' -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":{}}'"},
		{"TypeScript", "CosmJS", "import { StargateClient } from '@cosmjs/stargate'\n\nconst client = await StargateClient.connect('" + at + "')\nconsole.log(await client.getHeight(), " + read + ")"},
		{"Go", "Go", program("comet.go", at)},
	}}
}

// callByCurl sends an empty message in a gRPC frame.
const callByCurl = `printf '\0\0\0\0\0' | curl -s '` + somewhere + `/cosmos.staking.v1beta1.Query/Params' --data-binary @-`

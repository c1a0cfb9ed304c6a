package demo

import (
	_ "embed" // for the template
	"io"
	"net"
	"strings"
	"text/template"

	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

//go:embed banner.tmpl
var bannerText string

var banner = template.Must(template.New("banner").Option("missingkey=error").Parse(bannerText))

// printBanner prints commands that work when pasted. They name addresses of the simulated chain.
func printBanner(w io.Writer, s *service.Service, d *devnet.Devnet, key string) error {
	validator, delegator := devnet.PopularValidator, devnet.WideDelegator
	if d.Dialect() == devnet.Cosmos {
		validator, delegator = cosmos.PopularValidator, cosmos.WideDelegator
	}
	collection := ""
	for c := range d.Collections() {
		collection = c.Address
		break
	}
	return banner.Execute(w, map[string]any{
		"Chain": d.ChainID(), "Cosmos": d.Dialect() == devnet.Cosmos, "Height": d.Height(), "Control": d.ControlURL(),
		"Base": "http://" + reachable(s.Addresses.REST), "Admin": "http://" + reachable(s.Addresses.Admin), "Key": key,
		"RPC": reachable(strings.TrimPrefix(s.Addresses.RPC, "none")), "GRPC": reachable(strings.TrimPrefix(s.Addresses.GRPC, "none")),
		"Validator": validator, "Delegator": delegator, "Collection": collection,
		"Proposal": cosmos.VotedProposal, "Tx": cosmos.DelegateTx, "Contract": cosmos.Contract,
	})
}

// reachable returns an address of this machine in place of one that means all addresses, as a container needs.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

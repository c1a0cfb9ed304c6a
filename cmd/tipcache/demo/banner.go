package demo

import (
	_ "embed" // for the template
	"io"
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
		"Base": "http://" + s.Addresses.REST, "Admin": "http://" + s.Addresses.Admin, "Key": key,
		"RPC": strings.TrimPrefix(s.Addresses.RPC, "none"), "GRPC": strings.TrimPrefix(s.Addresses.GRPC, "none"),
		"Validator": validator, "Delegator": delegator, "Collection": collection,
		"Proposal": cosmos.VotedProposal, "Tx": cosmos.DelegateTx, "Contract": cosmos.Contract,
	})
}

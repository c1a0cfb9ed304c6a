package devnet_test

import (
	"io"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
)

func BenchmarkNode(b *testing.B) {
	d := start(b, devnet.Options{Interval: -1})
	for name, uri := range map[string]string{
		"params":              "/staking/params",
		"validator":           "/staking/validators/" + v5,
		"validators of 71":    "/staking/validators",
		"delegations of 100":  "/staking/validators/" + v5 + "/delegations",
		"delegations of 1000": "/staking/validators/" + v5 + "/delegations?pagination.limit=1000",
		"rewards of 61":       "/distribution/delegators/" + d0 + "/rewards",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				resp, err := client.Get(d.NodeURL() + uri)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
				b.SetBytes(n)
			}
		})
	}
}

func BenchmarkNewWith10000Delegators(b *testing.B) {
	for b.Loop() {
		if _, err := devnet.New(devnet.Options{Delegators: 10_000}); err != nil {
			b.Fatal(err)
		}
	}
}

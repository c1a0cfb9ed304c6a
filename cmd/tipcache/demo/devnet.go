package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Simulate runs a devnet until ctx ends and prints its addresses to out. If dump is not "", it writes the
// collections to that file.
func Simulate(ctx context.Context, o devnet.Options, dump string, out io.Writer) error {
	d, err := devnet.New(o)
	if err != nil {
		return err
	}
	if dump != "" {
		if err := WriteCollections(d.Collections(), dump); err != nil {
			return err
		}
	}
	if err := d.Start(); err != nil {
		return err
	}
	listens, flag := "", ""
	if at := d.Node().GRPCAddr(); at != "" {
		listens, flag = "\n  grpc      "+at, " --grpc "+at
	}
	fmt.Fprintf(out, devnetBanner, d.NodeURL(), d.CometURL(), d.MetadataURL(), d.ControlURL(), d.EVMURL(), listens, flag)
	<-ctx.Done()
	return d.Close()
}

const devnetBanner = `The simulated chain is running.

  node      %[1]s
  comet     %[2]s%[6]s
  evm       %[5]s
  metadata  %[3]s/nft/v3/KEY, for any KEY
  control   %[4]s

Serve from it:  tipcache serve --node %[1]s --comet %[2]s%[7]s
Fail it:        curl -X PUT %[4]s/devnet/faults -d '{"node":{"latency":"300ms"}}'
Repair it:      curl -X PUT %[4]s/devnet/faults -d '{"node":{}}'
Statistics:     curl %[4]s/devnet/stats
`

// AddFlags adds the flags for sizes, limits and faults that demo and devnet share.
func AddFlags(fs *pflag.FlagSet, o *devnet.Options) {
	fs.StringVar((*string)(&o.Dialect), "dialect", string(devnet.Story), "`API` of the node: story or cosmos")
	fs.BoolVar(&o.NoGRPC, "no-grpc", false, "with --dialect cosmos: simulate a node with grpc.enable = false")
	fs.BoolVar(&o.Base64Keys, "base64-keys", false, "with --dialect story: simulate a newer node, which reads page keys in base64")
	fs.Uint64Var(&o.Seed, "seed", 1, "seed of the simulated amounts and addresses")
	fs.IntVar(&o.Validators, "validators", 71, "number of validators")
	fs.IntVar(&o.Delegators, "delegators", 1600, "number of delegators of the most popular validator")
	fs.IntVar(&o.Collections, "collections", 500, "number of collections")
	fs.DurationVar(&o.Interval, "block-time", 0, "time between blocks (default 2s)")
	fs.Int64Var(&o.EVMRange, "evm-range", 10_000, "maximum number of blocks in one eth_getLogs")
	o.StartTime = time.Now() // so that collections change while the demo runs
	for _, target := range []struct {
		flag, name string
		fault      *devnet.Fault
	}{
		{"node", "the REST server", &o.Faults.Node}, {"comet", "CometBFT", &o.Faults.Comet},
		{"provider", "the metadata provider", &o.Faults.Provider}, {"evm", "the execution client", &o.Faults.EVM},
	} {
		f := target.fault
		fs.DurationVar(&f.Latency, target.flag+"-latency", 0, "delay of each response of "+target.name)
		fs.DurationVar(&f.Jitter, target.flag+"-jitter", 0, "maximum additional random delay")
		fs.Float64Var(&f.ErrorRate, target.flag+"-error-rate", 0, "share of the responses of "+target.name+" that are errors, 0 to 1")
		fs.BoolVar(&f.Stall, target.flag+"-stall", false, "make "+target.name+" accept requests and never answer")
		fs.StringVar(&f.Outage, target.flag+"-outage", "", "how connections to "+target.name+" fail: refuse or reset (default: they work)")
	}
}

// WriteCollections writes collections to a file in the format that tipcache import reads.
func WriteCollections(all iter.Seq[collections.Collection], path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for c := range all {
		_ = enc.Encode(c) // Flush returns the error of a failed write
	}
	return errors.Join(w.Flush(), f.Close())
}

package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// importCollections puts n collections into a store, and says how long that took.
func importCollections(ctx context.Context, r *rig.Rig, store string, n int) (time.Duration, error) {
	file := filepath.Join(r.Dir, "collections.jsonl")
	if err := writeCollections(file, n); err != nil {
		return 0, err
	}
	began := time.Now()
	_, err := r.Tipcache(ctx, "import", "--store", store, file)
	return time.Since(began), err
}

// writeCollections writes a file for `tipcache import`: n collections with few
// assets mostly and a great many seldom, updated at seconds spread over two
// years, as blocks are: many share one.
func writeCollections(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for range n {
		writeCollection(w, random)
	}
	return errors.Join(w.Flush(), f.Close())
}

func writeCollection(w io.Writer, r *rand.Rand) {
	const years = 2 * 365 * 24 * time.Hour
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	updated := time.Duration(r.Int64N(int64(years))).Truncate(time.Second)
	created := time.Duration(r.Int64N(int64(updated) + 1)).Truncate(time.Second)
	assets := int(math.Min(math.Pow(1-r.Float64(), -1/1.1), 1e6)) // Pareto's law: half have one, a hundredth 66 and more
	licenses, disputes := int(r.ExpFloat64()*float64(assets)), assets/100
	fmt.Fprintf(w, `{"collectionAddress":"0x%016x%016x%08x","assetCount":%d,"licensesCount":%d,`+
		`"raisedDisputeCount":%d,"cancelledDisputeCount":%d,"judgedDisputeCount":%d,"resolvedDisputeCount":%d,"createdAt":%q,"updatedAt":%q}`+"\n",
		r.Uint64(), r.Uint64(), r.Uint32(), assets, licenses, disputes, disputes/4, disputes/2, disputes/3,
		start.Add(created).Format(time.RFC3339), start.Add(updated).Format(time.RFC3339)) // errors are the writer's, told by Flush
}

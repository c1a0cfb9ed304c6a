package demo

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestPrintedCommandEndsFaultOfNode(t *testing.T) {
	body := regexp.MustCompile(`Repair it: .* -d '(.*)'`).FindStringSubmatch(devnetBanner)
	if body == nil {
		t.Fatal("no such line")
	}
	d, err := Start(devnet.Options{Interval: -1, Faults: devnet.Faults{Node: devnet.Fault{ErrorRate: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, d.ControlURL()+"/devnet/faults", strings.NewReader(body[1]))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := d.Faults(); got != (devnet.Faults{}) {
		t.Errorf("the faults are %+v", got)
	}
}

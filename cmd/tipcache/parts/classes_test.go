package parts

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/chain"
)

// The configuration shows the defaults that the proxy has without one.
func TestTheClassesOfTheConfigurationAreTheProxys(t *testing.T) {
	if diff := cmp.Diff(chain.DefaultClasses(), Classes(config.Default())); diff != "" {
		t.Errorf("classes (-proxy +configuration):\n%s", diff)
	}
}

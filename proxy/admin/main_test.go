package admin_test

import (
	"testing"

	"github.com/tipcache/tipcache/upstream/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

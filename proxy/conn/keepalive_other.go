//go:build !linux

package conn

import "net"

func listenConfig() net.ListenConfig { return net.ListenConfig{} }

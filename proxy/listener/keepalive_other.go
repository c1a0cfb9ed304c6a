//go:build !linux

package listener

import "net"

func listenConfig() net.ListenConfig { return net.ListenConfig{} }

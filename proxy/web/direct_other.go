//go:build !linux

package web

import "net"

// forLane is the socket as the fast lane uses it: through package net.
func (s *socket) forLane() net.Conn { return s }

package grpc

// ReflectNow lets the next call of an unknown method read the node's services, as if a minute had passed.
func (d *Handler) ReflectNow() { d.reflection.lastRead.Store(0) }

// UnaryNames returns the number of bytes of the names of methods that the node calls unary.
func (d *Handler) UnaryNames() (bytes int) {
	for name := range d.reflection.unary.Range {
		bytes += len(name.(string)) //nolint:forcetypeassert // all keys are strings
	}
	return bytes
}
